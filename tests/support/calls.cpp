#include "tests/support/calls.h"

#include "thalweg/core/dispatch.h"

namespace thalweg::testing {
namespace {

class CallRecorder final : public Recorder {
 public:
  CallRecorder() { recorders().push_back(this); }
  ~CallRecorder() { recorders().pop_back(); }
  void check(const OpInfo&, std::span<const Tensor>) override {}
  void record(const OpCall& call) override {
    calls.push_back({&call.info,
                     call.info.copy(call.op),
                     {call.inputs.begin(), call.inputs.end()},
                     {call.outputs.begin(), call.outputs.end()}});
  }
  void read(const Variable&, const Tensor&) override {}
  std::vector<RecordedCall> calls;
};

}  // namespace

std::vector<RecordedCall> record_calls(const std::function<void()>& program) {
  CallRecorder recorder;
  program();
  return std::move(recorder.calls);
}

}  // namespace thalweg::testing
