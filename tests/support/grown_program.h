// Programs generated from bytes: an operation per two bytes, with operands and attributes of a hostile file. Include it
// after operation_examples.h and its prerequisites.
#pragma once

namespace engine_test {

namespace grown_detail {

// A subprogram for an operation with these operands.
inline std::shared_ptr<const lamina::ir::program> body(const operation& op,
                                                       const std::shared_ptr<const void>& attributes,
                                                       std::vector<tensor_type> in, number_source& random) {
  lamina::message_text why;
  if (op.inside) op.inside(attributes.get(), in, why);
  auto p = std::make_shared<lamina::ir::program>();
  std::vector<lamina::ir::value> x;
  for (const auto& t : in) x.push_back(p->input("x", t));
  for (auto n = 1 + random.below(2); !x.empty() && n-- > 0;) p->output("y", x[random.below(x.size())]);
  return p;
}

// Appends an operation, usually on existing values.
inline void grow(lamina::ir::program& p, std::vector<lamina::ir::value>& all, number_source random) {
  const operation& op = *lamina::operations()[random.below(lamina::operations().size())];
  const auto& like = examples_of(op)[random.below(examples_of(op).size())];
  auto v = random.below(3) ? variant{like.in, attributes_of(op, like)} : varied(op, like, random);
  std::vector<lamina::ir::value> operands;
  for (const auto& t : v.in) {
    std::vector<lamina::ir::value> fit;
    for (const auto& x : all)
      if (x.type() == t || (x.type().element == t.element && random.below(8) == 0)) fit.push_back(x);
    if (!fit.empty() && random.below(8)) {
      operands.push_back(fit[random.below(fit.size())]);
      continue;
    }
    tensor_type given = t;
    for (int i = 0; i < given.dims.rank; ++i)
      if (random.below(8) == 0) given.dims[i] = random.below(2) ? lamina::dim(dyn) : lamina::dim("N");
    const auto name = "x" + std::to_string(p.nodes().size());
    if (!given.is_tensor()) operands.push_back(p.input(name, given));
    else if (random.below(6) == 0 && given.dims.is_static()) operands.push_back(p.state(name, given));
    else if (random.below(6) == 0 && given.dims.is_static()) {
      lamina::any_tensor data(given);
      random.fill(data.mutable_data(), given, random.below(2) ? made_up::wild : made_up::small);
      operands.push_back(p.constant(std::move(data)));
    } else operands.push_back(p.input(name, given, random.below(16) == 0));
    all.push_back(operands.back());
  }
  std::vector<std::shared_ptr<const lamina::ir::program>> subprograms;
  for (int i = 0; i < op.subprograms; ++i) {
    std::vector<tensor_type> in;
    for (const auto& x : operands) in.push_back(x.type());
    subprograms.push_back(body(op, v.attributes, in, random));
  }
  const lamina::value_id made = p.add(op, v.attributes, operands, subprograms);
  for (std::size_t r = 0; r < p.at(made).results.size(); ++r)
    all.emplace_back(&p, lamina::value_id{made.node, static_cast<std::int32_t>(r)});
}

}  // namespace grown_detail

/// The program of these bytes, of at most 12 operations; a trailing odd byte changes the meaning of all others. The
/// last values are its outputs, and a state is assigned if a value fits.
inline std::shared_ptr<lamina::ir::program> grown(const unsigned char* data, std::size_t size) {
  const std::uint64_t salt = size % 2 ? static_cast<std::uint64_t>(data[size - 1]) << 16 : 0;
  auto p = std::make_shared<lamina::ir::program>();
  std::vector<lamina::ir::value> all;
  for (std::size_t i = 0; i + 1 < size && i < 24; i += 2) {
    try {
      grown_detail::grow(*p, all, number_source(salt | static_cast<std::uint64_t>(data[i + 1]) << 8 | data[i]));
    } catch (const lamina::error&) {}
  }
  for (std::size_t i = all.size() > 6 ? all.size() - 6 : 0; i < all.size(); ++i) p->output("y", all[i]);
  for (auto s : p->states())
    for (const auto& v : all)
      if (v.type() == p->at(s).results[0] && v.id().node != s) {
        p->assign(lamina::ir::value(p.get(), {s, 0}), v);
        break;
      }
  return p;
}

}  // namespace engine_test
