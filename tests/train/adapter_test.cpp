// Low-rank adapters: results, trained parameters, files, and merging that can be undone.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

using strings = std::vector<std::string>;

constexpr auto two_layers = sequential(sublayer<"fc1">(nn::linear{.in_features = 6, .out_features = 8}), nn::tanh{},
                                       sublayer<"fc2">(nn::linear{.in_features = 8, .out_features = 3}));
using small = model<two_layers, input<"N", 6>>;
using small64 = model<two_layers, input<"N", 6>, policies<element<double>>>;

void set_random(parameter_store& all, std::string_view part, int seed) {
  for (auto& p : all) {
    if (p.name().find(part) == std::string::npos) continue;
    any_tensor v = p.copy();
    const philox stream(seed++, 3);
    for (std::int64_t i = 0; i < v.shape().size(); ++i) {
      const double x = stream.uniform<double>(static_cast<std::uint64_t>(i)) - 0.5;
      if (v.element() == dtype::float64) reinterpret_cast<double*>(v.mutable_data())[i] = x;
      else reinterpret_cast<float*>(v.mutable_data())[i] = static_cast<float>(x);
    }
    p.assign(v);
  }
}
// W + scale b a, computed here, for a weight whose first axis has the rows of b.
void merge_by_hand(parameter_store& plain, const parameter_store& adapted, const std::string& name, double scale) {
  const auto a = adapted.find(name + ".lora_a")->value().elements<float>(),
             b = adapted.find(name + ".lora_b")->value().elements<float>();
  any_tensor w = plain.find(name)->copy();
  const auto first = static_cast<std::size_t>(w.shape().at(0)),
             rest = static_cast<std::size_t>(w.shape().size()) / first, rank = b.size() / first;
  auto* out = reinterpret_cast<float*>(w.mutable_data());
  for (std::size_t i = 0; i < first; ++i)
    for (std::size_t j = 0; j < rest; ++j) {
      double sum = 0;
      for (std::size_t r = 0; r < rank; ++r) sum += double(b[i * rank + r]) * a[r * rest + j];
      out[i * rest + j] = static_cast<float>(out[i * rest + j] + scale * sum);
    }
  plain.find(name)->assign(w);
}
double farthest(const auto& a, const auto& b) {
  double max = 0;
  for (std::size_t i = 0; i < a.data().size(); ++i)
    max = std::max(max, static_cast<double>(std::abs(a.data()[i] - b.data()[i])));
  return max;
}
strings names_of(const parameter_store& all) {
  strings names;
  for (const auto& p : all) names.push_back(p.name());
  return names;
}
bool kept(const parameter_store& before, const parameter_store& now, std::string_view name) {
  const any_tensor &a = before.find(name)->value(), &b = now.find(name)->value();
  return a.type() == b.type() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}
// A model with nonzero adapters gives the results of a model with the merged weights.
template <class Model>
void computes_the_sum(const Model& from, const strings& weights, double tolerance, const auto& x) {
  Model plain(from), adapted(from);
  BOOST_TEST(add_lora(adapted, weights, {.rank = 2, .alpha = 3}) == weights, boost::test_tools::per_element());
  BOOST_TEST(same_bits(adapted(x), plain(x)));
  set_random(adapted.parameters(), ".lora_", 5);
  const auto before = plain(x);
  for (const auto& w : weights) merge_by_hand(plain.parameters(), adapted.parameters(), w, 1.5);
  const auto wanted = plain(x);
  BOOST_TEST(farthest(before, wanted) > 100 * tolerance);
  BOOST_TEST(farthest(adapted(x), wanted) < tolerance);
  merge_lora(adapted);
  BOOST_TEST(farthest(adapted(x), wanted) < tolerance);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(adapters)

BOOST_AUTO_TEST_CASE(results_begin_as_they_were_and_the_factors_alone_are_trained) {
  plain_model net({.seed = 1});
  const auto before = net;
  const auto x = random_tensor<tensor<float, extents<dyn, 1, 6, 6>>>({5, 1, 6, 6}, 1);
  const auto first = net(x);
  BOOST_TEST(add_lora(net, {"*.weight"}, {.rank = 3}) == (strings{"hidden.weight", "head.weight"}),
             boost::test_tools::per_element());
  BOOST_TEST(same_bits(net(x), first));
  const auto& all = net.parameters();
  BOOST_TEST((all.find("hidden.weight.lora_a")->shape() == shape{3, 36}));
  BOOST_TEST((all.find("hidden.weight.lora_b")->shape() == shape{16, 3}));
  const auto b = all.find("head.weight.lora_b")->value().elements<float>();
  BOOST_TEST(std::all_of(b.begin(), b.end(), [](float v) { return v == 0; }));
  const auto a = all.find("hidden.weight.lora_a")->value().elements<float>();
  BOOST_TEST(std::all_of(a.begin(), a.end(), [](float v) { return v != 0 && std::abs(v) <= 1.0F / 6; }));
  for (int threads : {1, 2}) {
    plain_model now(net);
    const auto report = fit(now, squares(120, 1), loss::cross_entropy{}, optim::adam{.lr = 0.01},
                            {.epochs = 20, .batch = 12, .threads = threads});
    BOOST_TEST(report.epochs.back().loss < 0.5 * report.epochs.front().loss);
    for (const auto& p : before.parameters())
      BOOST_TEST(kept(before.parameters(), now.parameters(), p.name()), p.name());
    for (const auto* n : {"hidden.weight.lora_a", "hidden.weight.lora_b", "head.weight.lora_a", "head.weight.lora_b"})
      BOOST_TEST(!kept(all, now.parameters(), n), n);
    static thread_local std::unique_ptr<plain_model> one;
    if (!one) one = std::make_unique<plain_model>(now);
    else BOOST_TEST(same_bits(one->parameters(), now.parameters()));
  }
}

BOOST_AUTO_TEST_CASE(products_with_matrices) {
  computes_the_sum(small({.seed = 1}), {"fc1.weight", "fc2.weight"}, 1e-5, random_tensor<matrix<float>>({7, 6}, 1));
}

namespace {
constexpr auto attending =
    sequential(sublayer<"a">(nn::self_attention{.embed_dim = 8, .num_heads = 2, .causal = true}),
               sublayer<"g">(nn::grouped_query_attention{.embed_dim = 8, .num_heads = 2, .num_kv_heads = 1}));
constexpr auto by_parts =
    topology(sublayer<"m">(nn::multi_head_attention{.embed_dim = 8, .num_heads = 2}), connect<"input", "m.query">,
             connect<"input", "m.key">, connect<"input", "m.value">, connect<"m.output", "output">);
constexpr auto convolving = sequential(sublayer<"c">(nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = 3}),
                                       nn::relu{}, nn::flatten{});
constexpr auto remembering = sequential(sublayer<"r">(nn::lstm{.input_size = 8, .hidden_size = 5}));
constexpr auto looking_up = sequential(sublayer<"e">(nn::embedding{.num_embeddings = 9, .embedding_dim = 4}));
}  // namespace

BOOST_AUTO_TEST_CASE(projections_of_attention) {
  const auto x = random_tensor<tensor<float, extents<dyn, dyn, 8>>>({2, 5, 8}, 1);
  computes_the_sum(model<attending, input<"N", "T", 8>>({.seed = 1}),
                   {"a.in_proj_weight", "a.out_proj.weight", "g.q_proj.weight", "g.v_proj.weight"}, 1e-4, x);
}
// Weights that are sliced, convolved with, used in each iteration, or looked up.
BOOST_AUTO_TEST_CASE(what_is_no_product_with_the_whole_matrix) {
  const auto x = random_tensor<tensor<float, extents<dyn, dyn, 8>>>({2, 5, 8}, 1);
  computes_the_sum(model<by_parts, input<"N", "T", 8>>({.seed = 1}), {"m.in_proj_weight"}, 1e-5, x);
  computes_the_sum(model<remembering, input<"N", "T", 8>>({.seed = 1}), {"r.weight_ih_l0", "r.weight_hh_l0"}, 1e-5, x);
  computes_the_sum(model<convolving, input<"N", 2, 5, 5>>({.seed = 1}), {"c.weight"}, 1e-5,
                   random_tensor<tensor<float, extents<dyn, 2, 5, 5>>>({3, 2, 5, 5}, 2));
  computes_the_sum(model<looking_up, port_input<"input", std::int64_t, "N">>({.seed = 1}), {"e.weight"}, 1e-5,
                   vector<std::int64_t>{3, 0, 8, 3});
}

// Compared with central differences of the loss, in double.
BOOST_AUTO_TEST_CASE(gradients_of_the_factors) {
  small64 net({.seed = 1});
  add_lora(net, {"fc1.weight", "fc2.weight"}, {.rank = 2, .alpha = 3});
  set_random(net.parameters(), ".lora_", 3);
  const auto x = random_tensor<matrix<double>>({7, 6}, 1), y = random_tensor<matrix<double>>({7, 3}, 2);
  const auto loss_of = [&](small64 now) { return training(now, loss::mse{}, optim::sgd{.lr = 0})(x, y); };
  auto stepped = net;
  training(stepped, loss::mse{}, optim::sgd{.lr = 1})(x, y);
  int checked = 0;
  for (const auto& p : net.parameters()) {
    if (p.name().find(".lora_") == std::string::npos) continue;
    const auto before = p.value().elements<double>(),
               after = stepped.parameters().find(p.name())->value().elements<double>();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto at = [&](double h) {
        auto now = net;
        any_tensor v = p.copy();
        reinterpret_cast<double*>(v.mutable_data())[i] += h;
        now.parameters().find(p.name())->assign(v);
        return loss_of(now);
      };
      const double wanted = (at(1e-5) - at(-1e-5)) / 2e-5;
      BOOST_TEST(std::abs(before[i] - after[i] - wanted) < 1e-8, p.name() << " " << i);
      ++checked;
    }
  }
  BOOST_TEST(checked == 2 * (6 + 8) + 2 * (8 + 3));
}

BOOST_AUTO_TEST_CASE(merged_weights_cost_nothing_and_come_back) {
  small net({.seed = 1});
  const auto plain = net;
  const auto x = random_tensor<matrix<float>>({7, 6}, 1);
  add_lora(net, {"fc*"}, {.rank = 2});
  set_random(net.parameters(), ".lora_", 4);
  const auto adapted = net;
  const auto y = net(x);
  const merged_lora base = merge_lora(net);
  BOOST_TEST((net.core().inference().id() == plain.core().inference().id()));
  BOOST_TEST(names_of(net.parameters()) == names_of(plain.parameters()), boost::test_tools::per_element());
  BOOST_TEST(!kept(plain.parameters(), net.parameters(), "fc1.weight"));
  BOOST_TEST(base.bytes() == 4u * (6 * 8 + 8 * 3 + 2 * (6 + 8) + 2 * (8 + 3)));
  BOOST_TEST(farthest(net(x), y) < 1e-5);
  BOOST_TEST(holds(error_of([&] { merge_lora(net); }), "merge_lora: the model has no adapters"));
  unmerge_lora(net, base);
  BOOST_TEST(same_bits(net.parameters(), adapted.parameters()));
  BOOST_TEST(same_bits(net(x), y));
  for (const auto& p : plain.parameters()) BOOST_TEST(kept(plain.parameters(), net.parameters(), p.name()));
  BOOST_TEST(holds(error_of([&] { unmerge_lora(net, base); }), "unmerge_lora: the model has adapters"));
}

BOOST_AUTO_TEST_CASE(files_of_adapters) {
  test_files::folder dir;
  small net({.seed = 1}), other(net);
  const auto x = random_tensor<matrix<float>>({7, 6}, 1);
  BOOST_TEST(holds(error_of([&] { save_lora(net, dir / "a"); }), "save_lora: the model has no adapters"));
  add_lora(net, {"fc1.weight"}, {.rank = 2, .alpha = 5});
  set_random(net.parameters(), ".lora_", 4);
  save_lora(net, dir / "a");
  strings names;
  for (const auto& t : read_safetensors(dir / "a").tensors) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  BOOST_TEST(names == (strings{"fc1.weight.lora_a", "fc1.weight.lora_b", "fc1.weight.lora_scale"}),
             boost::test_tools::per_element());
  const auto begin = other(x);
  BOOST_TEST(load_lora(other, dir / "a") == strings{"fc1.weight"}, boost::test_tools::per_element());
  BOOST_TEST(same_bits(other(x), net(x)));
  BOOST_TEST(!same_bits(other(x), begin));
  BOOST_TEST(!other.parameters().find("fc2.bias")->trainable());
  // Replaces adapters of another rank; adapters of other weights stay.
  small third({.seed = 1});
  add_lora(third, {"fc*"}, {.rank = 4});
  load_lora(third, dir / "a");
  BOOST_TEST(same_bits(third(x), net(x)));
  BOOST_TEST(third.parameters().find("fc2.weight.lora_a"));
  // A mismatch changes nothing.
  constexpr static auto wider = sequential(sublayer<"fc1">(nn::linear{.in_features = 6, .out_features = 9}));
  model<wider, input<"N", 6>> wide({.seed = 1});
  const auto before = wide;
  BOOST_TEST(holds(error_of([&] { load_lora(wide, dir / "a"); }),
                   "`fc1.weight` has factors float32[2x6] and float32[8x2], and is float32[9x6] in the model"));
  save(net, dir / "whole");
  BOOST_TEST(holds(error_of([&] { load_lora(wide, dir / "whole"); }), "is not part of an adapter"));
  const auto with = [&](auto change) {
    auto file = read_safetensors(dir / "a");
    change(file.tensors);
    write_safetensors(dir / "b", {file.tensors.data(), file.tensors.size()});
    return error_of([&] { load_lora(wide, dir / "b"); });
  };
  BOOST_TEST(holds(with([](auto& t) { std::erase_if(t, [](auto& e) { return e.name.ends_with("_b"); }); }),
                   "`fc1.weight` has no `lora_b` or no `lora_scale`"));
  BOOST_TEST(holds(with([](auto& t) { std::erase_if(t, [](auto& e) { return e.name.ends_with("_a"); }); }),
                   "`fc1.weight` has no `lora_a`"));
  BOOST_TEST(holds(with([](auto& t) { t.clear(); }), "has no adapters"));
  BOOST_TEST(holds(with([](auto& t) {
                     for (auto& e : t) e.name = "fc7" + e.name.substr(3);
                   }),
                   "`fc7.weight` is not a weight that the model reads"));
  BOOST_TEST(same_bits(wide.parameters(), before.parameters()));
  BOOST_TEST((wide.core().inference().id() == before.core().inference().id()));
}

// A net whose weight is [in, out], as in ONNX files.
BOOST_AUTO_TEST_CASE(nets_from_files) {
  test_files::folder dir;
  auto p = std::make_shared<ir::program>();
  const ir::value in = p->input("x", {dtype::float32, {"N", 4}}), w = p->state("w", {dtype::float32, {4, 3}});
  p->output("y", relu(matmul(in, w, {})));
  saved_net net;
  net.program = p;
  net.states.add("w", any_tensor(tensor_type{dtype::float32, {4, 3}}), state_role::parameter);
  set_random(net.states, "w", 1);
  auto core = core_of(std::move(net));
  const auto x = random_tensor<matrix<float>>({5, 4}, 1);
  const auto run = [&](model_core& c) -> matrix<float> { return predict(c, dataset::of_tensors(x))[0]; };
  const auto first = run(core);
  add_lora(core, {"w"}, {.rank = 2, .alpha = 3});
  BOOST_TEST(same_bits(run(core), first));
  BOOST_TEST((core.parameters().find("w.lora_a")->shape() == shape{2, 4}));
  BOOST_TEST((core.parameters().find("w.lora_b")->shape() == shape{3, 2}));
  set_random(core.parameters(), ".lora_", 7);
  const auto& all = core.parameters();
  const auto a = all.find("w.lora_a")->value().elements<float>(), b = all.find("w.lora_b")->value().elements<float>(),
             base = all.find("w")->value().elements<float>();
  const auto check = [&](const matrix<float>& y) {
    for (std::int64_t n = 0; n < 5; ++n)
      for (std::size_t o = 0; o < 3; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < 4; ++i) {
          double weight = base[i * 3 + o];
          for (std::size_t r = 0; r < 2; ++r) weight += 1.5 * b[o * 2 + r] * a[r * 4 + i];
          sum += weight * x(n, static_cast<std::int64_t>(i));
        }
        BOOST_TEST(std::abs(y(n, static_cast<std::int64_t>(o)) - std::max(sum, 0.0)) < 1e-5);
      }
  };
  check(run(core));
  // A net saved with adapters keeps them; a net saved merged has the original structure.
  save_net(dir / "net", core.inference(), core.parameters());
  auto again = core_of(load_net(dir / "net"));
  check(run(again));
  model_core merged(core);
  merge_lora(merged);
  BOOST_TEST(merged.inference().states().size() == 1u);
  check(run(merged));
  const auto before = core.parameters();
  fit(core, dataset::of_tensors(x, random_tensor<matrix<float>>({5, 3}, 2)), loss::mse{}, optim::sgd{.lr = 0.1},
      {.batch = 5});
  BOOST_TEST(kept(before, core.parameters(), "w"));
  BOOST_TEST(!kept(before, core.parameters(), "w.lora_a"));
}

BOOST_AUTO_TEST_CASE(steps_go_on_with_adapters) {
  small net({.seed = 1});
  training step(net, loss::mse{}, optim::sgd{.lr = 0.1});
  const auto x = random_tensor<matrix<float>>({7, 6}, 1), y = random_tensor<matrix<float>>({7, 3}, 2);
  step(x, y);
  add_lora(net, {"fc1.weight"}, {.rank = 2});
  unfreeze(net, "fc2.bias");
  const auto before = net;
  step(x, y);
  strings moved;
  for (const auto& p : before.parameters())
    if (p.role() == state_role::parameter && !kept(before.parameters(), net.parameters(), p.name()))
      moved.push_back(p.name());
  // The gradient of `a` is 0 while `b` is 0.
  BOOST_TEST(moved == (strings{"fc2.bias", "fc1.weight.lora_b"}), boost::test_tools::per_element());
  step(x, y);
  BOOST_TEST(!kept(before.parameters(), net.parameters(), "fc1.weight.lora_a"));
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
  small net({.seed = 1});
  const auto refused = [&](const strings& p, const lora_options& o = {}) {
    return error_of([&] { add_lora(net, p, o); });
  };
  BOOST_TEST(holds(refused({"fc3.weight"}),
                   "add_lora: pattern `fc3.weight` matches no weight of two axes or more; there are "
                   "`fc1.weight`, `fc2.weight`"));
  BOOST_TEST(holds(refused({"*.bias"}), "pattern `*.bias` matches no weight"));
  BOOST_TEST(holds(refused({"*"}, {.rank = 0}), "`rank` is 0; expected 1 to 65536"));
  BOOST_TEST(holds(refused({"*"}, {.alpha = std::nan("")}), "`alpha` is nan; expected a finite number"));
  BOOST_TEST(net.core().definition().adapters.empty());
  add_lora(net, {"fc1.*"});
  BOOST_TEST(holds(refused({"fc*"}), "weight `fc1.weight` has an adapter already"));
  BOOST_TEST(!net.parameters().find("fc2.weight.lora_a"));
}

BOOST_AUTO_TEST_SUITE_END()
