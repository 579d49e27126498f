#include "thalweg/plan/file/body_codec.h"

#include "thalweg/core/check.h"
#include "thalweg/plan/file/node_rules.h"

namespace thalweg {
namespace {

constexpr std::size_t smallest_body = 29;
constexpr int most_depth = 64;  // of bodies inside of bodies: planning one plans those inside of it

class Collector {
 public:
  explicit Collector(const Graph& function) : function_(function) { visit(function, nullptr); }
  BodyTable table;

 private:
  void visit(const Graph& graph, const Body* inside) {
    for (const auto& node : graph.nodes) {
      check(node, inside);
      if (!is_control(*node.info)) continue;
      for (const auto& body : bodies_of(node))
        if (!table.contains(body)) add(body);
    }
  }

  void add(const BodyPointer& body) {
    const Graph& graph = body->graph();
    TW_CHECK_INTERNAL(
        graph.variables.empty() && graph.host_numbers.empty() && graph.carries.empty() && graph.random_state < 0,
        "save", "function \"{}\": a body of {} reads more than its arguments", function_.name, graph.name);
    visit(graph, body.get());
    table.add(body);
    TW_CHECK(unimplemented, table.depth(body) <= most_depth, "save", "write the inner loops as ops on whole tensors",
             "function \"{}\" has branches and loops inside of each other, which a file holds up to a depth of {}",
             function_.name, most_depth);
  }

  void check(const Node& node, const Body* inside) const {
    TW_CHECK(unimplemented, has_file_rule(*node.info), "save",
             "a file holds the ops of the library: compute it with those",
             "function \"{}\" has a node \"{}\"{}{}, which a file cannot hold", function_.name, node.info->name,
             node.layer == 0 ? "" : fmt::format(" in layer \"{}\"", path_of(node.layer)),
             inside ? fmt::format(" in a body of {}", inside->graph().name) : "");
  }

  const Graph& function_;
};

}  // namespace

BodyTable collect_bodies(const Graph& graph) { return Collector(graph).table; }

void write_bodies(ByteWriter& out, const BodyTable& table, std::vector<Tensor>& data) {
  out.count(table.bodies().size());
  for (const auto& body : table.bodies()) {
    out.flag(body->has_custom_gradient());
    out.count(body->sums());
    write_content(out, body->graph(), table, data);
  }
}

BodyTable read_bodies(ByteReader& in, Container& data) {
  BodyTable table;
  for (std::size_t n = in.count(smallest_body); n > 0; --n) {
    const bool has_custom_gradient = in.flag();
    const auto sums = in.number<std::uint32_t>();
    Graph graph;
    read_content(in, graph, table, data);
    if (sums > graph.results.size())
      throw_damaged(fmt::format("a body of {} results makes {} sums", graph.results.size(), sums));
    const auto body = std::make_shared<const Body>(std::move(graph), sums, has_custom_gradient);
    table.add(body);
    if (table.depth(body) > most_depth) throw_damaged(fmt::format("bodies are {} deep", table.depth(body)));
  }
  return table;
}

}  // namespace thalweg
