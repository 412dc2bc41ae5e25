// Programs with data-dependent shapes, run like small graphs. Include it after graph.h and <cstring>.
#pragma once

namespace engine_test {

/// Plans a small graph by segments and holds the results; states keep the values that a run assigns.
class segment_run {
 public:
  explicit segment_run(small_graph& g, int threads = 1, const lamina::pass_options& passes = {})
      : where(std::make_shared<lamina::context>(threads, lamina::target_isa())),
        // To JSON and back, as for tests that plan in one piece.
        plans(lamina::read_program(g.p.to_json()), {&g.store, nullptr}, where, passes) {
    place = [this](std::size_t i, const lamina::tensor_type& type) -> void* {
      if (!out[i] || out[i].type() != type) out[i] = lamina::any_tensor(type);
      if (type.bytes()) std::memset(out[i].mutable_data(), 0xa5, type.bytes());  // exposes unwritten elements
      return out[i].mutable_data();
    };
    out.resize(g.p.outputs().size());
    for (const auto& a : g.data) in.push_back(to_tensor(a));
  }
  segment_run(const segment_run&) = delete;
  segment_run& operator=(const segment_run&) = delete;

  /// Runs and writes the results to `out`.
  void run() {
    extents.clear(), data.clear();
    for (const auto& t : in) extents.push_back(t.shape()), data.push_back(t.data());
    plans.run(extents, data, place);
  }
  std::vector<array> operator()() {
    run();
    std::vector<array> results;
    for (const auto& t : out) results.push_back(from_tensor(t));
    return results;
  }
  std::vector<array> operator()(const std::vector<array>& now) {
    in.clear();
    for (const auto& a : now) in.push_back(to_tensor(a));
    return (*this)();
  }

  std::shared_ptr<lamina::context> where;
  lamina::ir::session plans;
  std::vector<lamina::any_tensor> in, out;

 private:
  std::function<void*(std::size_t, const lamina::tensor_type&)> place;
  std::vector<lamina::shape> extents;
  std::vector<const void*> data;
};

/// Builds a program over inputs, runs it by segments and returns its results.
inline std::vector<array> counted_results(const std::vector<array>& in, const builder& build, int threads = 1,
                                          bool open = false, const lamina::pass_options& passes = {}) {
  small_graph g;
  std::vector<lamina::ir::value> inputs;
  for (const auto& a : in) inputs.push_back(open ? g.open_input(a) : g.input(a));
  for (const auto& v : build(inputs)) g.output(v);
  return segment_run(g, threads, passes)();
}

}  // namespace engine_test
