// Readers of the values of a program.
module lamina:plan.analyze.impl;
import :core;
import :plan.phases;
import :program;
import lamina.std;

namespace lamina::planning {

namespace {

std::shared_ptr<const std::vector<std::int32_t>> numbered(const program& p) {
  std::vector<std::int32_t> first;
  first.reserve(p.nodes().size() + 1);
  std::int32_t count = 0;
  for (const node& n : p.nodes()) {
    first.push_back(count);
    count += std::max<std::int32_t>(1, static_cast<std::int32_t>(n.results.size()));
  }
  first.push_back(count);
  return std::make_shared<const std::vector<std::int32_t>>(std::move(first));
}

bool depends_on_parameters_alone(const program& p, const usage& u, const node& n) {
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    if (!n.reads_data(k)) continue;
    const auto from = n.inputs[k].node;
    const auto kind = p.at(from).kind;
    const bool known = kind == node_kind::constant || (kind == node_kind::state && !p.is_assigned(from)) ||
                       u.parameter_only[static_cast<std::size_t>(from)];
    if (!known) return false;
  }
  return true;
}

// Readers of each value, grouped by value.
void collect_readers(const program& p, usage& u) {
  const auto each = [&](auto f) {
    for (std::size_t i = 0; i < p.nodes().size(); ++i) {
      if (!u.needed[i]) continue;
      const node& n = p.nodes()[i];
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (n.reads_data(k)) f(static_cast<std::int32_t>(i), n.inputs[k]);
    }
  };
  each([&](std::int32_t, value_id v) { ++u.reader_count[v]; });
  std::int32_t count = 0;
  for (std::size_t i = 0; i < p.nodes().size(); ++i)
    for (value_id v{static_cast<std::int32_t>(i), 0};
         v.result == 0 || v.result < static_cast<std::int32_t>(p.nodes()[i].results.size()); ++v.result) {
      u.first_reader[v] = count;
      count += u.reader_count[v];
      u.reader_count[v] = 0;
    }
  u.readers.resize(static_cast<std::size_t>(count));
  each([&](std::int32_t n, value_id v) {
    u.readers[static_cast<std::size_t>(u.first_reader[v] + u.reader_count[v]++)] = n;
  });
}

}  // namespace

usage analyze(const request& r) {
  const program& p = r.of;
  usage u;
  u.first_value = numbered(p);
  u.needed = p.reachable();
  u.shape_read.resize(p.nodes().size());
  u.parameter_only.resize(p.nodes().size());
  u.reader_count = u.first_reader = value_table<std::int32_t>(u.first_value);
  u.root = value_table<char>(u.first_value);
  u.gradients = r.gradients;
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    const node& n = p.nodes()[i];
    if (!u.needed[i] || n.kind != node_kind::operation) continue;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!n.reads_data(k)) u.shape_read[static_cast<std::size_t>(n.inputs[k].node)] = 1;
    u.gradients = u.gradients || n.op->plain_images;
    u.parameter_only[i] = depends_on_parameters_alone(p, u, n);
  }
  collect_readers(p, u);
  for (const auto& o : p.outputs()) u.root[o.value] = 1;
  for (const auto& a : p.assignments()) u.root[a.value] = 1;
  return u;
}

}  // namespace lamina::planning
