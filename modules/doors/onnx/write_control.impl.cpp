// Operations with subprograms: calls are inlined, the others become nodes with graphs that read values of the enclosing
// graph by name.
module lamina.onnx:write_control.impl;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

using graph_pointer = std::shared_ptr<written_graph>;

// Output names of a subprogram.
name_list written_outputs(program_writer& w) {
  name_list names;
  for (const auto& o : w.source().outputs()) names.push_back(w.name_of(o.value));
  return names;
}
// Adds a graph output through an Identity: each output must be a distinct result of the graph itself.
void output(written_call& c, written_graph& g, const std::string& is, const tensor_type& type) {
  const std::string name = c.w.names().unique(g.name + "_output");
  g.nodes.push_back({"Identity", name, {is}, {name}, {}});
  g.outputs.push_back({name, type});
}
std::string input(written_call& c, written_graph& g, const tensor_type& type) {
  g.inputs.push_back({c.w.names().unique(g.name + "_input"), type});
  return g.inputs.back().name;
}
graph_pointer graph_of(std::string_view name) {
  auto g = std::make_shared<written_graph>();
  g->name = name;
  return g;
}
// Binds operands from `first` on to the program's inputs from `input` on.
void bind_operands(written_call& c, program_writer& w, std::size_t first, std::size_t input) {
  const auto& inputs = w.source().inputs();
  for (std::size_t i = first; i < c.operands(); ++i) w.bind({inputs[input + i - first], 0}, c[i]);
}

void call(written_call& c) {
  program_writer w(c.w.names(), *c.of.subprograms[0], c.w.graph());
  bind_operands(c, w, 0, 0);
  w.run();
  // A given result may be renamed, so a name must not be given twice.
  const auto names = written_outputs(w);
  for (std::size_t k = 0; k < names.size(); ++k)
    c.give(std::count(names.begin(), names.end(), names[k]) == 1 ? names[k] : c.add("Identity", {names[k]}), k);
}
void in_training(written_call& c) { c.give(c.add("Identity", {c[1]})); }

void give_all(written_call& c, const name_list& names) {
  for (std::size_t k = 0; k < names.size(); ++k) c.give(names[k], k);
}
void cond(written_call& c) {
  attribute_list a;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto g = graph_of(k == 0 ? "then" : "else");
    program_writer w(c.w.names(), *c.of.subprograms[k], *g);
    bind_operands(c, w, 1, 0);
    w.run();
    const auto names = written_outputs(w);
    for (std::size_t o = 0; o < names.size(); ++o)
      output(c, *g, names[o], w.source().type(w.source().outputs()[o].value));
    a.push_back({k == 0 ? "then_branch" : "else_branch", g});
  }
  give_all(c, c.add("If", {c[0]}, std::move(a), c.of.results.size()));
}
void scan(written_call& c) {
  const auto carries = static_cast<std::size_t>(c.integer("carries"));
  const auto sequences = static_cast<std::size_t>(c.integer("sequences"));
  const auto g = graph_of("scan");
  program_writer w(c.w.names(), *c.of.subprograms[0], *g);
  const auto& inputs = w.source().inputs();
  name_list in;
  for (std::size_t i = 0; i < carries + sequences; ++i) {
    w.bind({inputs[i], 0}, input(c, *g, w.source().at(inputs[i]).results[0]));
    in.push_back(c[i]);
  }
  bind_operands(c, w, carries + sequences, carries + sequences);
  w.run();
  const auto names = written_outputs(w);
  for (std::size_t o = 0; o < names.size(); ++o)
    output(c, *g, names[o], w.source().type(w.source().outputs()[o].value));
  attribute_list a{{"body", g}, {"num_scan_inputs", static_cast<std::int64_t>(sequences)}};
  if (c.flag("reverse")) {
    a.push_back({"scan_input_directions", written_numbers(sequences, 1)});
    if (names.size() > carries) a.push_back({"scan_output_directions", written_numbers(names.size() - carries, 1)});
  }
  give_all(c, c.add("Scan", std::move(in), std::move(a), c.of.results.size()));
}
void host_loop(written_call& c) {
  const bool trips = c.flag("trips"), condition = c.flag("condition");
  const auto carries = static_cast<std::size_t>(c.integer("carries"));
  const std::size_t first = std::size_t(trips) + std::size_t(condition);
  const auto g = graph_of("loop");
  program_writer w(c.w.names(), *c.of.subprograms[0], *g);
  const auto& inputs = w.source().inputs();
  name_list in{trips ? c[0] : std::string(), condition ? c[first - 1] : std::string()};
  for (std::size_t i = 0; i < carries; ++i) in.push_back(c[first + i]);
  for (std::size_t i = 0; i < 2 + carries; ++i)
    w.bind({inputs[i], 0}, input(c, *g, w.source().at(inputs[i]).results[0]));
  bind_operands(c, w, first + carries, 2 + carries);
  w.run();
  const auto names = written_outputs(w);
  for (std::size_t o = 0; o < names.size(); ++o)
    output(c, *g, names[o], w.source().type(w.source().outputs()[o].value));
  give_all(c, c.add("Loop", std::move(in), {{"body", g}}, c.of.results.size()));
}

constexpr operation_writer writers[] = {
    {"call", call}, {"cond", cond}, {"host_cond", cond}, {"host_loop", host_loop}, {"in_training", in_training},
    {"scan", scan}};

}  // namespace

view<const operation_writer> control_writers() { return writers; }

}  // namespace lamina::onnx
