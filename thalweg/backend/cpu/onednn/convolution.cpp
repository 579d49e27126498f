// Convolutions over oneDNN: channels-last activations, weights in the layout the primitive prefers (packed into the
// workspace once a call), a few images a task.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "thalweg/backend/cpu/convolution_provider.h"
#include "thalweg/backend/cpu/onednn/runtime.h"
#include "thalweg/backend/cpu/partial_sums.h"
#include "thalweg/backend/cpu/slots.h"

namespace thalweg::cpu::onednn {
namespace {

using dnnl::memory;

// One chunk of images. All chunks of a call share the weights layout chosen for `layout_batch` images.
struct Key {
  Direction direction;
  Convolution chunk;
  std::int64_t layout_batch;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    const Convolution& c = key.chunk;
    std::size_t hash = hash_combine(static_cast<std::size_t>(key.direction), key.layout_batch);
    for (const std::int64_t value :
         {static_cast<std::int64_t>(c.dtype), std::int64_t{c.wide_gradient}, static_cast<std::int64_t>(c.spatial),
          c.batch, c.in_channels, c.out_channels, c.groups})
      hash = hash_combine(hash, value);
    for (const auto* axes : {&c.input, &c.kernel, &c.output, &c.stride, &c.dilation, &c.pad_before, &c.pad_after})
      for (const std::int64_t value : *axes) hash = hash_combine(hash, value);
    return hash;
  }
};

memory::dims axes(const Convolution& c, const std::array<std::int64_t, 3>& values, std::int64_t minus = 0) {
  memory::dims dims;
  for (int i = 0; i < c.spatial; ++i) dims.push_back(values[static_cast<std::size_t>(i)] - minus);
  return dims;
}

// A single tap has no distance to others. With one, oneDNN 3.2 takes an old kernel for gradients of bf16 images that is
// wrong for some sizes.
memory::dims dilations(const Convolution& c) {
  memory::dims dims = axes(c, c.dilation, 1);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (c.kernel[i] == 1) dims[i] = 0;
  return dims;
}

memory::desc image(const Convolution& c, std::int64_t channels, const std::array<std::int64_t, 3>& sizes) {
  constexpr memory::format_tag tags[] = {memory::format_tag::nwc, memory::format_tag::nhwc, memory::format_tag::ndhwc};
  memory::dims dims{c.batch, channels};
  for (const std::int64_t size : axes(c, sizes)) dims.push_back(size);
  return {dims, data_type(c.dtype), tags[c.spatial - 1]};
}

// [groups,] out / groups, in / groups, kernel… with the strides of [kernel…, in / groups, out].
struct PlainWeights {
  memory::dims dims, strides;
  explicit PlainWeights(const Convolution& c) {
    const std::int64_t in = c.in_channels / c.groups, out = c.out_channels / c.groups;
    if (c.groups > 1) dims.push_back(c.groups), strides.push_back(out);
    dims.push_back(out), strides.push_back(1);
    dims.push_back(in), strides.push_back(c.out_channels);
    const memory::dims kernel = axes(c, c.kernel);
    std::int64_t stride = in * c.out_channels;
    memory::dims reversed;
    for (auto size = kernel.rbegin(); size != kernel.rend(); ++size) reversed.push_back(stride), stride *= *size;
    dims.insert(dims.end(), kernel.begin(), kernel.end());
    strides.insert(strides.end(), reversed.rbegin(), reversed.rend());
  }
  memory::desc desc(DType dtype) const { return {dims, data_type(dtype), strides}; }
};

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// An empty description where oneDNN has no implementation, or only its plain reference loops.
dnnl::primitive_desc_base describe(Direction direction, const Convolution& c, const memory::desc& weights) {
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const memory::desc x = image(c, c.in_channels, c.input), y = image(c, c.out_channels, c.output);
  const memory::dims stride = axes(c, c.stride), dilation = dilations(c);
  const memory::dims before = axes(c, c.pad_before), after = axes(c, c.pad_after);
  const dnnl::primitive_attr attributes = user_scratchpad();
  const bool is_forward = direction == Direction::forward;
  const memory::desc any(PlainWeights(c).dims, data_type(c.dtype), memory::format_tag::any);
  const dnnl::convolution_forward::primitive_desc forward(engine(), dnnl::prop_kind::forward_training, direct, x,
                                                          is_forward ? weights : any, y, stride, dilation, before,
                                                          after, attributes, true);
  dnnl::primitive_desc_base description = forward;
  if (forward && direction == Direction::backward_data)
    description = dnnl::convolution_backward_data::primitive_desc(engine(), direct, x, weights, y, stride, dilation,
                                                                  before, after, forward, attributes, true);
  if (forward && direction == Direction::backward_weights)
    description = dnnl::convolution_backward_weights::primitive_desc(engine(), direct, x, weights, y, stride, dilation,
                                                                     before, after, forward, attributes, true);
  const bool reference = description && std::string_view(description.impl_info_str()).starts_with("ref");
  return reference ? dnnl::primitive_desc_base() : description;
}

// Copies weights from one layout and dtype to another.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const memory::desc& from, const memory::desc& to)
      : description_(engine(), from, engine(), to, user_scratchpad()),
        from_(from, engine(), nullptr),
        to_(to, engine(), nullptr),
        scratch_(description_.scratchpad_desc(), engine(), nullptr) {}

  std::size_t scratch_bytes() const { return description_.scratchpad_desc().get_size(); }

  void run(const void* from, void* to, std::byte* scratch) {
    if (!primitive_) primitive_ = make_primitive(description_);
    from_.set_data_handle(const_cast<void*>(from));
    to_.set_data_handle(to);
    scratch_.set_data_handle(scratch);
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}, {DNNL_ARG_SCRATCHPAD, scratch_.get()}};
    execute(primitive_, args, 3);
  }

 private:
  dnnl::reorder::primitive_desc description_;
  dnnl::primitive primitive_;
  memory from_, to_, scratch_;
};

class Chunk;
Chunk& chunk_for(const Key& key);

// The primitive of one chunk, and the reorder between the caller's weights and its own.
class Chunk {
 public:
  explicit Chunk(const Key& key) : direction_(key.direction) {
    const Convolution& c = key.chunk;
    const PlainWeights plain(c);
    memory::desc weights(plain.dims, data_type(weights_dtype(c)), memory::format_tag::any);
    if (key.layout_batch != c.batch) {
      Key main = key;
      main.chunk.batch = key.layout_batch;
      const Chunk& first = chunk_for(main);
      if (!first.usable()) return;
      weights = first.weights_.get_desc();
    }
    description_ = describe(direction_, c, weights);
    if (!description_) return;
    weights = description_.query_md(gradient() ? dnnl::query::diff_weights_md : dnnl::query::weights_md, 0);
    packed_bytes_ = weights.get_size();
    const memory::desc given = plain.desc(gradient() ? gradient_dtype(c) : c.dtype);
    packs_ = weights != given;
    reorder_ = gradient() ? Reorder(weights, given) : Reorder(given, weights);
    weights_ = memory(weights, engine(), nullptr);
    x_ = memory(image(c, c.in_channels, c.input), engine(), nullptr);
    y_ = memory(image(c, c.out_channels, c.output), engine(), nullptr);
    scratch_ = memory(description_.scratchpad_desc(), engine(), nullptr);
    scratch_bytes_ = std::max(description_.scratchpad_desc().get_size(), reorder_.scratch_bytes());
  }

  bool usable() const { return static_cast<bool>(description_); }
  bool packs() const { return packs_; }  // the primitive's weights differ from the caller's
  std::size_t packed_bytes() const { return packed_bytes_; }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  Reorder& reorder() { return reorder_; }

  void run(const void* x, const void* weights, const void* y, std::byte* scratch) {
    if (!primitive_) primitive_ = make_primitive(description_);
    x_.set_data_handle(const_cast<void*>(x));
    weights_.set_data_handle(const_cast<void*>(weights));
    y_.set_data_handle(const_cast<void*>(y));
    scratch_.set_data_handle(scratch);
    const dnnl_exec_arg_t args[] = {
        {direction_ == Direction::backward_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, x_.get()},
        {gradient() ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weights_.get()},
        {direction_ == Direction::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, y_.get()},
        {DNNL_ARG_SCRATCHPAD, scratch_.get()}};
    execute(primitive_, args, 4);
  }

 private:
  bool gradient() const { return direction_ == Direction::backward_weights; }

  // Gradients of weights are summed in f32 and rounded once.
  DType weights_dtype(const Convolution& c) const { return gradient() ? DType::f32 : c.dtype; }

  Direction direction_;
  dnnl::primitive_desc_base description_;
  dnnl::primitive primitive_;
  memory x_, weights_, y_, scratch_;
  Reorder reorder_;
  bool packs_ = false;
  std::size_t packed_bytes_ = 0, scratch_bytes_ = 0;
};

Chunk& chunk_for(const Key& key) {
  thread_local PrimitiveCache<Key, Chunk, KeyHash> cache;
  return cache.get(key);
}

class Run {
 public:
  Run(Direction direction, const Convolution& c) : direction_(direction), c_(c) {
    const auto weights = static_cast<std::size_t>(elements_of_w(c)) * sizeof(float);
    const std::int64_t wanted = gradient()
                                    ? weight_partials(flops_of(c), weights)
                                    : static_cast<std::int64_t>(std::clamp(flops_of(c) / kTaskFlops, 1.0, kMostTasks));
    images_ = ceil_div(c.batch, std::min(wanted, c.batch));
    layout_.tasks = ceil_div(c.batch, images_);
    const OneThread one;
    const Chunk& first = chunk(0);
    if (!first.usable()) return;
    std::size_t scratch = first.scratch_bytes();
    through_workspace_ = first.packs() || (gradient() && layout_.tasks > 1);
    packed_bytes_ = align_up(first.packed_bytes());
    if (c.batch % images_ != 0) {
      const Chunk& last = chunk(layout_.tasks - 1);
      if (!last.usable()) return;
      scratch = std::max(scratch, last.scratch_bytes());
    }
    usable_ = true;
    if (through_workspace_)
      layout_.shared_bytes = packed_bytes_ * (gradient() ? static_cast<std::size_t>(layout_.tasks) : 1);
    layout_.slot_bytes = align_up(scratch);
  }

  bool usable() const { return usable_; }
  std::size_t workspace_bytes() const { return layout_.bytes(); }

  void run(const ConvolutionOperands& operands, std::span<std::byte> workspace) const {
    TW_CHECK_INTERNAL(workspace.size() >= layout_.shared_bytes + layout_.slot_bytes, "convolution",
                      "workspace of {} bytes, needs {}", workspace.size(), layout_.shared_bytes + layout_.slot_bytes);
    std::byte* shared = workspace.data();
    if (through_workspace_ && !gradient()) reorder(operands.b, shared, workspace);
    run_in_slots(layout_, workspace,
                 [&](std::int64_t task, std::byte* scratch) { run_chunk(task, operands, shared, scratch); });
    if (!through_workspace_ || !gradient()) return;
    if (layout_.tasks > 1)  // with the bytes that pad a partial sum to 64, which nobody reads
      sum_partials(DType::f32, shared, layout_.tasks, static_cast<std::int64_t>(packed_bytes_ / sizeof(float)), shared,
                   false);
    reorder(shared, operands.out, workspace);
  }

 private:
  static constexpr double kTaskFlops = 4e6, kMostTasks = 16;

  bool gradient() const { return direction_ == Direction::backward_weights; }

  void reorder(const void* from, void* to, std::span<std::byte> workspace) const {
    const OneThread one;
    chunk(0).reorder().run(from, to, workspace.data() + layout_.shared_bytes);
  }

  Chunk& chunk(std::int64_t task) const {
    Key key{direction_, c_, images_};
    key.chunk.batch = std::min(images_, c_.batch - task * images_);
    return chunk_for(key);
  }

  void run_chunk(std::int64_t task, const ConvolutionOperands& operands, std::byte* shared, std::byte* scratch) const {
    const std::int64_t first = task * images_;
    const std::int64_t x = first * (elements_of_x(c_) / c_.batch) * size_of(c_.dtype);
    const std::int64_t y = first * (elements_of_y(c_) / c_.batch) * size_of(c_.dtype);
    const OneThread one;
    Chunk& primitive = chunk(task);
    switch (direction_) {
      case Direction::forward:
        primitive.run(operands.a + x, through_workspace_ ? shared : operands.b, operands.out + y, scratch);
        break;
      case Direction::backward_data:
        primitive.run(operands.out + x, through_workspace_ ? shared : operands.b, operands.a + y, scratch);
        break;
      case Direction::backward_weights:
        std::byte* partial = shared + static_cast<std::size_t>(task) * packed_bytes_;
        primitive.run(operands.a + x, through_workspace_ ? partial : operands.out, operands.b + y, scratch);
    }
    if (operands.done) tell_images(first, *operands.done);
  }

  void tell_images(std::int64_t first, const OnRegion& done) const {
    const bool forward = direction_ == Direction::forward;
    const std::int64_t channels = forward ? c_.out_channels : c_.in_channels;
    const std::int64_t pixels = (forward ? elements_of_y(c_) : elements_of_x(c_)) / c_.batch / channels;
    done({first * pixels, std::min(images_, c_.batch - first) * pixels, 0, channels});
  }

  const Direction direction_;
  const Convolution c_;
  std::int64_t images_ = 1;  // a task
  bool usable_ = false;
  bool through_workspace_ = false;  // weights are packed there, or summed from partial gradients
  std::size_t packed_bytes_ = 0;
  WorkspaceLayout layout_;
};

// A window that is wider than the image along some axis.
bool has_wider_window(const Convolution& c) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.spatial); ++i)
    if ((c.kernel[i] - 1) * c.dilation[i] + 1 > c.input[i]) return true;
  return false;
}

// A volume of which no place sees all taps along the first axis.
bool has_no_whole_place(const Convolution& c) {
  const std::int64_t first = (c.pad_before[0] + c.stride[0] - 1) / c.stride[0];  // that begins inside
  const std::int64_t end = first * c.stride[0] - c.pad_before[0] + (c.kernel[0] - 1) * c.dilation[0] + 1;
  return c.spatial == 3 && (first >= c.output[0] || end > c.input[0]);
}

// One tap with strides over fewer channels than the kernels' vectors have: 256 bits of f32, 512 of bf16 in f32.
bool is_thin_and_strided(const Convolution& c) {
  bool strided = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.spatial); ++i) {
    if (c.kernel[i] != 1) return false;
    strided = strided || c.stride[i] > 1;
  }
  return strided && c.in_channels / c.groups < (c.dtype == DType::bf16 ? 16 : 8);
}

// With these oneDNN 3.2 leaves gradients of weights as they were in memory, or writes beside its workspace.
bool spoils_weights(const Convolution& c) {
  return (c.dtype == DType::bf16 && has_wider_window(c)) || has_no_whole_place(c) || is_thin_and_strided(c);
}

}  // namespace

bool supported(Direction direction, const Convolution& c) {
  if (c.dtype != DType::f32 && !(c.dtype == DType::bf16 && bf16_supported())) return false;
  if (reaches_far(c) || (direction == Direction::backward_weights && spoils_weights(c))) return false;
  return Run(direction, c).usable();
}

std::size_t convolution_workspace(Direction direction, const Convolution& convolution) {
  return Run(direction, convolution).workspace_bytes();
}

void convolution(Direction direction, const Convolution& convolution, const ConvolutionOperands& operands,
                 std::span<std::byte> workspace) {
  Run(direction, convolution).run(operands, workspace);
}

}  // namespace thalweg::cpu::onednn
