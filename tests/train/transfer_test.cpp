// Training parts of models that were trained before: what is frozen keeps its bits, everything else moves.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

using words = std::vector<std::string>;
using batch = tensor<float, extents<dyn, 1, 6, 6>>;

bool kept(const parameter_store& before, const parameter_store& now, std::string_view name) {
  const any_tensor &a = before.find(name)->value(), &b = now.find(name)->value();
  return std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}
// The names of the parameters whose bits are others.
words changed(const parameter_store& before, const parameter_store& now) {
  words all;
  for (const auto& p : before)
    if (p.role() == state_role::parameter && !kept(before, now, p.name())) all.push_back(p.name());
  return all;
}
const loss::cross_entropy by_entropy;

}  // namespace

BOOST_AUTO_TEST_SUITE(freezing)

BOOST_AUTO_TEST_CASE(frozen_parameters_keep_their_bits_in_fit) {
  regular_model net({.seed = 1});
  BOOST_TEST(freeze(net, "conv.*", "*.bias") == (words{"conv.weight", "conv.bias", "norm.bias", "head.bias"}),
             boost::test_tools::per_element());
  const auto before = net;
  // Decay is no reason to change them.
  for (std::int64_t shards : {1, 2}) {
    regular_model now(before);
    fit(now, squares(40, 1), by_entropy, optim::adamw{.lr = 0.01, .weight_decay = 0.1}, {.batch = 8, .shards = shards});
    BOOST_TEST(changed(before.parameters(), now.parameters()) == (words{"norm.weight", "head.weight"}),
               boost::test_tools::per_element());
    BOOST_TEST(!kept(before.parameters(), now.parameters(), "norm.running_mean"));
    words slots;
    for (const auto& p : now.parameters())
      if (p.role() == state_role::optimizer) slots.push_back(p.name());
    BOOST_TEST(std::none_of(slots.begin(), slots.end(), [](const auto& n) { return n.find("conv.") != n.npos; }));
    BOOST_TEST(std::any_of(slots.begin(), slots.end(), [](const auto& n) { return n.find("head.weight") != n.npos; }));
  }
}

// Between steps of one training: no slot of what is frozen is written, and what was frozen goes on.
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
  const words all{"hidden.weight", "hidden.bias", "head.weight", "head.bias"}, head{"head.weight", "head.bias"};
  BOOST_TEST(moved() == all, boost::test_tools::per_element());
  freeze(net, "hidden.*");
  BOOST_TEST(moved() == head, boost::test_tools::per_element());
  BOOST_TEST(moved() == head, boost::test_tools::per_element());
  unfreeze(net, "hidden.b*");
  BOOST_TEST(moved() == (words{"hidden.bias", "head.weight", "head.bias"}), boost::test_tools::per_element());
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
  BOOST_TEST(changed(before, core.parameters()) == (words{"hidden.bias", "head.weight", "head.bias"}),
             boost::test_tools::per_element());
  // The file says so, too.
  save_net(dir / "tuned", core.inference(), core.parameters());
  auto again = load_net(dir / "tuned");
  BOOST_TEST(!again.states.find("hidden.weight")->trainable());
  unfreeze(again.states, "hidden.weight");
  BOOST_TEST(again.states.find("hidden.weight")->trainable());
}

BOOST_AUTO_TEST_CASE(patterns_that_fit_nothing) {
  regular_model net({.seed = 1});
  const auto said = error_of([&] { freeze(net, "head.*", "cnv.weight"); });
  BOOST_TEST(holds(said, "value_error: freeze: pattern `cnv.weight` fits no parameter; there are `conv.weight`"));
  BOOST_TEST(holds(said, "did you mean `conv.weight`"));
  BOOST_TEST(net.parameters().find("head.weight")->trainable());
  // Statistics are no parameters.
  BOOST_TEST(holds(error_of([&] { unfreeze(net, "*.running_mean"); }), "unfreeze: pattern `*.running_mean` fits no"));
  BOOST_TEST(!net.parameters().find("norm.running_mean")->trainable());
}

BOOST_AUTO_TEST_SUITE_END()
