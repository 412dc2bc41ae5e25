// Writes nets and data for the test of the program to the folder in its argument.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

import lamina;

using namespace lamina;
using namespace lamina::ir;

namespace {

constexpr auto images =
    sequential(sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}), nn::relu{},
               nn::flatten{}, sublayer<"head">(nn::linear{.in_features = 64, .out_features = 3}));
constexpr auto added = topology(sublayer<"add">(nn::add{}), connect<"left", "add.lhs">, connect<"right", "add.rhs">,
                                connect<"add.output", "output">);
// Keeps rows whose sum is above 0.
struct positive_rows {
  constexpr auto forward(auto&, const auto& x) const { return compress(x, reduce_sum<1>(x) > 0); }
};
constexpr auto rows =
    sequential(sublayer<"keep">(positive_rows{}), sublayer<"fc">(nn::linear{.in_features = 2, .out_features = 3}));

// A net for images of any size, but for which 1 is too small.
constexpr auto any_size = sequential(sublayer<"pool">(nn::max_pool2d{.kernel_size = 2}));

// A classifier with a sequence inside, which has no gradient.
void save_hosted(const std::string& folder) {
  program p;
  parameter_store states;
  const value x = p.input("x", {dtype::float32, {"N", 1, 6, 6}}), flat = flatten<1>(x);
  states.make("w", {dtype::float32, {36, 36}}, initializer::constant(1), 0, state_role::parameter);
  states.make("v", {dtype::float32, {36, 3}}, initializer::constant(1), 0, state_role::parameter);
  const value h = matmul(flat, p.state("w", {dtype::float32, {36, 36}}));
  p.path = "joined";
  const value joined = concat_sequence(sequence_of({&h, 1}), {.axis = 1});
  p.path.clear();
  p.output("y", matmul(joined, p.state("v", {dtype::float32, {36, 3}})));
  save_net(folder + "hosted", p, states);
}

// A net with inputs of types that npy files lack, and files with their bits.
void save_bits(const std::string& folder) {
  program p;
  const auto numbers = [&](const std::string& name, dtype e) { return cast<float>(p.input(name, {e, shape{2}})); };
  p.output("sum", numbers("b", dtype::bfloat16) + numbers("f", dtype::float8_e4m3fn) + numbers("i", dtype::int4));
  save_net(folder + "bits", p, parameter_store());
  write_npy(folder + "b.npy", vector<std::uint16_t>{0x3f80, 0xc000});  // 1, -2
  write_npy(folder + "f.npy", vector<std::uint8_t>{0x38, 0x44});       // 1, 3
  write_npy(folder + "i.npy", vector<std::int8_t>{-8, 7});
  write_npy(folder + "wide.npy", vector<std::int8_t>{0, 8});
}

// A graph model in training, its predictor, and a net that runs programs.
void save_by_name(const std::string& folder) {
  graph::model m("digits", {.seed = 1});
  const graph::model::scope here(m);
  const value x = m.input("x", {dtype::float32, {"N", 1, 6, 6}}), labels = m.input("labels", {dtype::int64, {"N"}});
  value h = graph::max_pool(graph::spatial_bn(graph::conv(x, 4, {.activation = nn::relu{}})));
  h = flatten<1>(graph::dropout(relu(h)));
  const value scores = m.main().output("scores", graph::fc(h, 3));
  m.add_gradient_operators({m.main().output("loss", cross_entropy(scores, labels))});
  m.add_updates(optim::adam{});
  graph::workspace ws;
  ws.run_once(m.init());
  ws.feed("x", tensor<float, extents<2, 1, 6, 6>>());
  ws.feed("labels", vector<std::int64_t>{0, 2});
  ws.run_once(m.main());
  graph::save(folder + "digits", m, ws);
  graph::save(folder + "predictor", m.predictor("predictor", {"x"}, {"scores"}), ws);

  const tensor_type four{dtype::float32, {4}};
  auto body = std::make_shared<program>(), up = std::make_shared<program>(), down = std::make_shared<program>();
  for (const auto& p : {up, down}) {
    const value a = p->input("a", four);
    p->output("b", p == up ? tanh(a) : sqrt(a));
  }
  const value carry = body->input("carry", four), row = body->input("row", four);
  body->output("carry", cond(value(reduce_sum(row) > 0), up, down, {&carry, 1})[0] + row);
  graph::net n("branches");
  const value a = n.external("a", four), all = n.external("rows", {dtype::float32, {5, 4}});
  n.output("last", scan(body, {&a, 1}, {&all, 1}, {})[0]);
  graph::save(folder + "branches", n, graph::workspace());
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = std::string(arguments[1]) + "/";
  model<images, input<"N", 1, 6, 6>> net({.seed = 1});
  save_net(folder + "net", net, {{"made", "for a test"}});
  save_net(folder + "sum", model<added, port_input<"left", float, "N", 2>, port_input<"right", float, "N", 2>>());

  graph::net scoped("scoped");
  const value pixels = scoped.external("x", {dtype::float32, {"N", 1, 6, 6}});
  scoped.output("z", pixels * 2);
  {
    const graph::name_scope decoder("decoder");
    scoped.output("y", relu(pixels));
  }
  graph::save(folder + "scoped", scoped, graph::workspace());
  save_net(folder + "rows", model<rows, input<"N", 2>>({.seed = 1}));
  save_net(folder + "pool", model<any_size, input<"N", 1, "H", "W">>());
  save_by_name(folder);
  save_hosted(folder);
  save_bits(folder);

  // Three classes that differ in the position of a bright square.
  tensor<std::uint8_t, extents<dyn, 1, 6, 6>> pictures(60);
  vector<std::int64_t> classes(60);
  auto bytes = pictures.writable();
  for (std::int64_t i = 0; i < 60; ++i) {
    classes.writable(i) = i % 3;
    for (std::int64_t y = 0; y < 6; ++y)
      for (std::int64_t x = 0; x < 6; ++x)
        bytes[static_cast<std::size_t>((i * 6 + y) * 6 + x)] =
            static_cast<std::uint8_t>((y / 2 == i % 3 && x / 2 == i % 3 ? 150 : 0) + (i * 7 + y * x) % 90);
  }
  write_npy(folder + "pictures.npy", pictures);
  write_npy(folder + "classes.npy", classes);

  tensor<float, extents<dyn, 1, 6, 6>> x(2);
  auto numbers = x.writable();
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 13) / 13 - 0.4F;
  write_npy(folder + "x.npy", x);
  write_npy(folder + "expected.npy", net(x));
  write_npy(folder + "pair.npy", matrix<float>{{1, 2}, {3, 4}});
  write_npy(folder + "signs.npy", matrix<float>{{1, 2}, {-3, -4}, {5, 6}});
  write_npy(folder + "double.npy", matrix<double>{{1, 2}, {3, 4}});
  write_npz(folder + "pair.npz",
            std::vector<named_tensor>{{"a", matrix<float>{{1, 2}, {3, 4}}}, {"b", vector<std::int64_t>{5}}}, true);
}
