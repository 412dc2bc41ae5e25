// Training parts of pretrained models: frozen parameters keep their bits, all others change.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
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
using batch = tensor<float, extents<dyn, 1, 6, 6>>;

bool kept(const parameter_store& before, const parameter_store& now, std::string_view name) {
  const any_tensor &a = before.find(name)->value(), &b = now.find(name)->value();
  return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}
// Names of the parameters whose bits differ.
strings changed(const parameter_store& before, const parameter_store& now) {
  strings all;
  for (const auto& p : before)
    if (p.role() == state_role::parameter && !kept(before, now, p.name())) all.push_back(p.name());
  return all;
}
const loss::cross_entropy by_entropy;

}  // namespace

BOOST_AUTO_TEST_SUITE(freezing)

BOOST_AUTO_TEST_CASE(frozen_parameters_keep_their_bits_in_fit) {
  regular_model net({.seed = 1});
  BOOST_TEST(freeze(net, "conv.*", "*.bias") == (strings{"conv.weight", "conv.bias", "norm.bias", "head.bias"}),
             boost::test_tools::per_element());
  const auto before = net;
  // Weight decay does not change them either.
  for (std::int64_t shards : {1, 2}) {
    regular_model now(before);
    fit(now, squares(40, 1), by_entropy, optim::adamw{.lr = 0.01, .weight_decay = 0.1}, {.batch = 8, .shards = shards});
    BOOST_TEST(changed(before.parameters(), now.parameters()) == (strings{"norm.weight", "head.weight"}),
               boost::test_tools::per_element());
    BOOST_TEST(!kept(before.parameters(), now.parameters(), "norm.running_mean"));
    strings slots;
    for (const auto& p : now.parameters())
      if (p.role() == state_role::optimizer) slots.push_back(p.name());
    BOOST_TEST(std::none_of(slots.begin(), slots.end(), [](const auto& n) { return n.find("conv.") != n.npos; }));
    BOOST_TEST(std::any_of(slots.begin(), slots.end(), [](const auto& n) { return n.find("head.weight") != n.npos; }));
  }
}

// Freezing between steps: no slot of a frozen parameter is written, and unfrozen ones continue.
BOOST_AUTO_TEST_CASE(steps_notice_what_is_frozen_between_them) {
  plain_model net({.seed = 1});
  training step(net, by_entropy, optim::sgd{.lr = 0.1, .momentum = 0.9});
  const auto x = random_tensor<batch>({3, 1, 6, 6}, 1);
  const vector<std::int64_t> y{0, 1, 2};
  const auto moved = [&] {
    const auto before = net;
    step(x, y);
    return changed(before.parameters(), net.parameters());
  };
  const strings all{"hidden.weight", "hidden.bias", "head.weight", "head.bias"}, head{"head.weight", "head.bias"};
  BOOST_TEST(moved() == all, boost::test_tools::per_element());
  freeze(net, "hidden.*");
  BOOST_TEST(moved() == head, boost::test_tools::per_element());
  BOOST_TEST(moved() == head, boost::test_tools::per_element());
  unfreeze(net, "hidden.b*");
  BOOST_TEST(moved() == (strings{"hidden.bias", "head.weight", "head.bias"}), boost::test_tools::per_element());
  unfreeze(net, "*");
  BOOST_TEST(moved() == all, boost::test_tools::per_element());
  freeze(net, "*");
  BOOST_TEST(holds(error_of([&] { step(x, y); }), "no parameter of the model is trainable"));
}

BOOST_AUTO_TEST_CASE(nets_from_files) {
  test_files::folder dir;
  const plain_model net({.seed = 1});
  save_net(dir / "net", net);
  auto core = core_of(load_net(dir / "net"));
  freeze(core, "hidden.weight");
  const parameter_store before = core.parameters();
  fit(core, squares(40, 1), by_entropy, optim::adam{.lr = 0.01}, {.batch = 8});
  BOOST_TEST(changed(before, core.parameters()) == (strings{"hidden.bias", "head.weight", "head.bias"}),
             boost::test_tools::per_element());
  // Files store it, too.
  save_net(dir / "tuned", core.inference(), core.parameters());
  auto again = load_net(dir / "tuned");
  BOOST_TEST(!again.states.find("hidden.weight")->trainable());
  unfreeze(again.states, "hidden.weight");
  BOOST_TEST(again.states.find("hidden.weight")->trainable());
}

BOOST_AUTO_TEST_CASE(patterns_that_fit_nothing) {
  regular_model net({.seed = 1});
  const auto message = error_of([&] { freeze(net, "head.*", "cnv.weight"); });
  BOOST_TEST(holds(message, "value_error: freeze: pattern `cnv.weight` matches no parameter; there are `conv.weight`"));
  BOOST_TEST(holds(message, "did you mean `conv.weight`"));
  BOOST_TEST(net.parameters().find("head.weight")->trainable());
  // Statistics are not parameters.
  BOOST_TEST(
      holds(error_of([&] { unfreeze(net, "*.running_mean"); }), "unfreeze: pattern `*.running_mean` matches no"));
  BOOST_TEST(!net.parameters().find("norm.running_mean")->trainable());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(heads)

namespace {
constexpr auto trunk =
    sequential(nn::flatten{}, sublayer<"hidden">(nn::linear{.in_features = 36, .out_features = 16}), nn::relu{});
constexpr auto two_layers = sequential(nn::linear{.in_features = 36, .out_features = 7}, nn::tanh{}, nn::dropout{0.5},
                                       nn::linear{.in_features = 7, .out_features = 2});
saved_net in_file(const plain_model& net, const test_files::folder& dir) {
  save_net(dir / "net", net);
  return load_net(dir / "net");
}
strings states_of(const saved_net& net) {
  strings all;
  for (const auto& p : net.states) all.push_back(p.name());
  return all;
}
any_tensor result(const saved_net& net, const batch& x) {
  auto core = core_of(saved_net{net.program, net.states});
  return predict(core, dataset::of_tensors(x))[0];
}
}  // namespace

BOOST_AUTO_TEST_CASE(features_are_what_the_head_took) {
  test_files::folder dir;
  const plain_model net({.seed = 1});
  model<trunk, input<"N", 1, 6, 6>> before({.seed = 2});
  save(net, dir / "weights");
  load(before, dir / "weights", {.allow_unexpected = true});
  const auto x = random_tensor<batch>({5, 1, 6, 6}, 1);
  const saved_net cut = without_head(in_file(net, dir), "head.*");
  BOOST_TEST(states_of(cut) == (strings{"hidden.weight", "hidden.bias"}), boost::test_tools::per_element());
  BOOST_TEST((cut.outputs()[0].type.dims == shape{"N", 16}));
  const matrix<float> features = result(cut, x);
  BOOST_TEST(same_bits(features, before(x)));
}

BOOST_AUTO_TEST_CASE(another_head_is_trained) {
  test_files::folder dir;
  const plain_model net({.seed = 1});
  const saved_net old = in_file(net, dir);
  const auto x = random_tensor<batch>({5, 1, 6, 6}, 1);
  const saved_net made = with_head(old, "head.*", nn::linear{.in_features = 16, .out_features = 5}, {.seed = 3});
  BOOST_TEST(states_of(made) == (strings{"hidden.weight", "hidden.bias", "head.weight", "head.bias"}),
             boost::test_tools::per_element());
  BOOST_TEST(made.outputs()[0].name == old.outputs()[0].name);
  // By hand: features w^T + b.
  const matrix<float> features = result(without_head(old, "head.*"), x), y = result(made, x);
  const auto w = made.states.find("head.weight")->value().elements<float>(),
             b = made.states.find("head.bias")->value().elements<float>();
  BOOST_REQUIRE((y.shape() == shape{5, 5}));
  for (std::int64_t n = 0; n < 5; ++n)
    for (std::int64_t o = 0; o < 5; ++o) {
      double sum = b[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < 16; ++i) sum += double(features(n, i)) * w[static_cast<std::size_t>(o * 16 + i)];
      BOOST_TEST(std::abs(y(n, o) - sum) < 1e-5);
    }
  // Another seed gives another head, the same seed the same head.
  const auto drawn = [&](std::int64_t seed) {
    const saved_net again = with_head(old, "head.*", nn::linear{.in_features = 16, .out_features = 5}, {.seed = seed});
    return std::memcmp(again.states.find("head.weight")->value().data(), w.data(), w.size() * sizeof(float)) == 0;
  };
  BOOST_TEST(drawn(3));
  BOOST_TEST(!drawn(4));
  auto core = core_of(saved_net{made.program, made.states});
  freeze(core, "hidden.*");
  const auto report = fit(core, squares(120, 1), by_entropy, optim::adam{.lr = 0.02}, {.epochs = 30, .batch = 12});
  BOOST_TEST(report.epochs.back().loss < 0.5 * report.epochs.front().loss);
  BOOST_TEST(changed(made.states, core.parameters()) == (strings{"head.weight", "head.bias"}),
             boost::test_tools::per_element());
  // The original net has separate memory.
  BOOST_TEST(same_bits(old.states, net.parameters()));
}

BOOST_AUTO_TEST_CASE(heads_of_several_layers) {
  test_files::folder dir;
  const saved_net old = in_file(plain_model({.seed = 1}), dir);
  const saved_net made = with_head(old, "hid*", two_layers, {.name = "net"});
  BOOST_TEST(states_of(made) == (strings{"net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"}),
             boost::test_tools::per_element());
  BOOST_TEST((made.outputs()[0].type.dims == shape{"N", 2}));
}

BOOST_AUTO_TEST_CASE(what_is_no_head) {
  test_files::folder dir;
  const saved_net net = in_file(plain_model({.seed = 1}), dir);
  const nn::linear five{.in_features = 16, .out_features = 5};
  BOOST_TEST(holds(error_of([&] { with_head(net, "heat.*", five); }),
                   "head: pattern `heat.*` matches no state that the net reads; there are `hidden.weight`"));
  BOOST_TEST(holds(error_of([&] { with_head(net, "head.*", nn::linear{.in_features = 17, .out_features = 5}); }),
                   "shape_error: sublayer `head` (linear): linear expects 17 input features but is given 16"));
  BOOST_TEST(holds(error_of([&] { with_head(net, "head.*", five, {.name = "hidden"}); }),
                   "the net has a state `hidden.weight` already; give the head another name"));
  // Two outputs that need the head; a head with two inputs.
  auto p = std::make_shared<ir::program>();
  saved_net both;
  const ir::value x = p->input("x", {dtype::float32, {"N", 4}}), w = p->state("w", {dtype::float32, {4}});
  both.states.add("w", any_tensor(tensor_type{dtype::float32, {4}}), state_role::parameter);
  p->output("a", x * w);
  p->output("b", tanh(x * w));
  both.program = p;
  BOOST_TEST(holds(error_of([&] { without_head(both, "w"); }), "2 outputs depend on states of `w`; expected one"));
  auto q = std::make_shared<ir::program>();
  const ir::value y = q->input("x", {dtype::float32, {"N", 4}}), v = q->state("w", {dtype::float32, {4}});
  q->output("a", tanh(y) * v + y);
  both.program = q;
  BOOST_TEST(holds(error_of([&] { without_head(both, "w"); }), "takes 2 values of the net; expected one"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(distilling)

// A student that sees no labels comes close to its teacher, closer than one trained on labels alone.
BOOST_AUTO_TEST_CASE(a_student_follows_its_teacher) {
  regular_model teacher({.seed = 1});
  const auto data = squares(240, 1), test = squares(120, 2);
  fit(teacher, data, by_entropy, optim::adam{.lr = 0.01}, {.epochs = 10, .batch = 24});
  const matrix<float> wanted = predict(teacher, test)[0];
  const auto distance = [&](plain_model& m) {
    const matrix<float> now = predict(m, test)[0];
    double sum = 0;
    for (std::size_t i = 0; i < now.data().size(); ++i) sum += std::pow(now.data()[i] - wanted.data()[i], 2);
    return sum;
  };
  // Samples with the teacher's output: picture, class, logits.
  const matrix<float> logits = predict(teacher, data)[0];
  const auto with_logits =
      data | dataset::map([logits](const auto& s, std::int64_t i) { return std::tuple(s.image, s.label, logits[i]); });
  const auto alone =
      data | dataset::map([logits](const auto& s, std::int64_t i) { return std::pair(s.image, logits[i]); });
  const fit_options o{.epochs = 30, .batch = 24};
  plain_model soft({.seed = 2}), both({.seed = 2}), hard({.seed = 2});
  const double before = distance(soft);
  const auto report = fit(soft, alone, loss::distillation{.temperature = 3}, optim::adam{.lr = 0.01}, o);
  BOOST_TEST(report.epochs.back().loss < 0.1 * report.epochs.front().loss);
  fit(
      both, with_logits,
      [](view<const ir::value> outputs, view<const ir::value> targets) {
        return loss::distillation{.temperature = 3, .hard = 0.2}(outputs[0], targets[1], targets[0]);
      },
      optim::adam{.lr = 0.01}, o);
  fit(hard, data, by_entropy, optim::adam{.lr = 0.01}, o);
  BOOST_TEST(distance(soft) < 0.2 * before);
  BOOST_TEST(distance(soft) < distance(hard));
  BOOST_TEST(distance(both) < distance(hard));
  BOOST_TEST(evaluate(both, test, by_entropy).accuracy > 0.9);
}

BOOST_AUTO_TEST_SUITE_END()
