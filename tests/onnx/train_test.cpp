// Training of nets from ONNX files: trainable and fixed tensors, and errors for nets that cannot be trained.
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/message.h"
#include "../support/nets.h"
#include "../support/onnx_writer.h"
#include "written_folder.h"

namespace fs = std::filesystem;
namespace t = onnx_test;
using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;
using nets_test::squares;
using onnx_test::folder;

namespace {

// The squares with classes starting at 1.
image_dataset with_wrong_labels(std::int64_t n) {
  const auto data = squares(n, 1);
  vector<std::int64_t> labels(n);
  for (std::size_t i = 0; i < labels.writable().size(); ++i) labels.writable()[i] = data.labels()[i] + 1;
  return {data.bytes(), labels, {"0", "1", "2", "3"}};
}

constexpr auto lenet =
    sequential(sublayer<"conv1">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3, .padding = 1}),
               nn::relu{}, nn::max_pool2d{.kernel_size = 2},
               sublayer<"conv2">(nn::conv2d{.in_channels = 4, .out_channels = 6, .kernel_size = 3, .padding = 1}),
               nn::relu{}, nn::flatten{}, sublayer<"fc">(nn::linear{.in_features = 54, .out_features = 3}));
constexpr auto mlp =
    sequential(nn::flatten{}, sublayer<"fc1">(nn::linear{.in_features = 36, .out_features = 8}), nn::relu{},
               sublayer<"fc2">(nn::linear{.in_features = 8, .out_features = 3}), nn::softmax{});

template <class M> saved_net exported(const folder& to, const std::string& name, const M& m) {
  save_net(to / name, m);
  onnx::save(to / (name + ".onnx"), load_net(to / name));
  return onnx::load(to / (name + ".onnx"));
}
std::vector<std::byte> bits(const auto& core, std::string_view name) {
  const auto& v = core.parameters().find(name)->value();
  return {v.data(), v.data() + v.bytes()};
}
std::vector<float> results_of(const saved_net& net, const any_tensor& x) {
  const any_tensor r = net.factory().create()({x})[0];
  const auto all = r.template elements<float>();
  return {all.begin(), all.end()};
}
any_tensor pictures(const image_dataset& data, std::int64_t n) {
  any_tensor x({dtype::float32, {n, 1, 6, 6}});
  std::vector<std::int64_t> rows, labels(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) rows.push_back(i);
  data.batch(view<const std::int64_t>(rows), reinterpret_cast<float*>(x.mutable_data()), labels.data());
  return x;
}
// The trained net, written in both formats and read back, gives the same numbers.
void check_written(const folder& to, const std::string& name, const auto& core, const image_dataset& data) {
  save_net(to / (name + "_net"), core.inference(), core.parameters());
  const saved_net again = load_net(to / (name + "_net"));
  onnx::save(to / (name + ".onnx"), again);
  const any_tensor x = pictures(data, 5);
  const auto expected = results_of(again, x), is = results_of(onnx::load(to / (name + ".onnx")), x);
  BOOST_REQUIRE(is.size() == 15u);
  for (std::size_t i = 0; i < is.size(); ++i) BOOST_TEST(std::abs(is[i] - expected[i]) <= 1e-5f);
  if (!to.kept) return;
  write_npy(to / (name + ".input_0.npy"), x);
  write_npy(to / (name + ".output_0.npy"), again.factory().create()({x})[0]);
}

saved_net read(const t::bytes& model) {
  return onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx");
}
std::vector<float> spread(std::size_t count, float factor) {
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(factor * (static_cast<float>(i * 7 % 13) / 6 - 1));
  return all;
}
// A classifier in exporters' operators: conv, normalization, dropout, dense; `middle` reads `h` [N x 72] and writes
// `g`.
t::bytes classifier(const std::vector<t::bytes>& middle, const t::extents& x = {"N", 1, 6, 6},
                    std::int32_t element = t::float32) {
  std::vector<t::bytes> nodes{
      t::node("Conv", {"x", "w"}, {"c"}, {t::integers("pads", {1, 1, 1, 1})}, {.name = "conv"}),
      t::node("BatchNormalization", {"c", "scale", "bias", "mean", "variance"}, {"n"}, {}, {.name = "norm"}),
      t::node("Relu", {"n"}, {"r"}), t::node("Dropout", {"r"}, {"d"}, {}, {.name = "drop"}),
      t::node("Flatten", {"d"}, {"h"})};
  nodes.insert(nodes.end(), middle.begin(), middle.end());
  nodes.push_back(t::node("Gemm", {"g", "v", "b"}, {"y"}, {t::integer("transB", 1)}, {.name = "head"}));
  return t::model_of(nodes,
                     {t::floats("w", {2, 1, 3, 3}, spread(18, 0.5f)), t::floats("scale", {2}, {1, 1.5f}),
                      t::floats("bias", {2}, {0.1f, 0}), t::floats("mean", {2}, {0.2f, 0.1f}),
                      t::floats("variance", {2}, {0.5f, 0.3f}), t::floats("v", {3, 72}, spread(216, 0.2f)),
                      t::floats("b", {3}, {0, 0.1f, 0})},
                     {t::value("x", element, x)}, {t::value("y", t::float32, {x[0], 3})});
}
const std::vector<t::bytes> direct{t::node("Identity", {"h"}, {"g"})};

}  // namespace

BOOST_AUTO_TEST_SUITE(training_of_onnx)

BOOST_AUTO_TEST_CASE(logits_with_a_frozen_layer) {
  const folder to;
  const auto data = squares(60, 1);
  saved_net net = exported(to, "lenet_before", model<lenet, input<"N", 1, 6, 6>>({.seed = 1}));
  std::size_t frozen = 0;
  for (auto& p : net.states)
    if (p.name().starts_with("conv1.")) p.trainable(false), ++frozen;
  BOOST_TEST(frozen == 2u);
  auto core = core_of(std::move(net));
  const auto before = bits(core, "conv1.weight"), trained = bits(core, "conv2.weight");
  const auto start = evaluate(core, data, loss::cross_entropy{});
  const auto report = fit(core, data, loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.epochs = 20, .batch = 16});
  BOOST_TEST(report.epochs.back().loss < 0.2 * start.loss);
  BOOST_TEST(evaluate(core, data, loss::cross_entropy{}).accuracy == 1);
  BOOST_TEST((bits(core, "conv1.weight") == before));
  BOOST_TEST((bits(core, "conv2.weight") != trained));
  check_written(to, "lenet_trained", core, data);
}

BOOST_AUTO_TEST_CASE(probabilities) {
  const folder to;
  const auto data = squares(60, 1);
  auto core = core_of(exported(to, "mlp_before", model<mlp, input<"N", 1, 6, 6>>({.seed = 1})));
  fit(core, data, loss::log_loss{}, optim::adam{.lr = 0.01}, {.epochs = 30, .batch = 16});
  BOOST_TEST(evaluate(core, data, loss::log_loss{}).accuracy == 1);
  BOOST_TEST(evaluate(core, data, loss::log_loss{}).loss < 0.2);
  check_written(to, "mlp_trained", core, data);
}

// Running statistics are not trained: a gradient step could make a variance negative.
BOOST_AUTO_TEST_CASE(normalization_and_dropout) {
  const folder to;
  const auto data = squares(60, 1);
  auto core = core_of(read(classifier(direct)));
  for (const char* name : {"mean", "variance"}) {
    BOOST_TEST(!core.parameters().find(name)->trainable());
    BOOST_TEST((core.parameters().find(name)->role() == state_role::statistic));
  }
  const auto mean = bits(core, "mean"), variance = bits(core, "variance"), scale = bits(core, "scale");
  fit(core, data, loss::cross_entropy{}, optim::sgd{.lr = 0.1}, {.epochs = 30, .batch = 16});
  BOOST_TEST(evaluate(core, data, loss::cross_entropy{}).accuracy == 1);
  BOOST_TEST((bits(core, "mean") == mean));
  BOOST_TEST((bits(core, "variance") == variance));
  BOOST_TEST((bits(core, "scale") != scale));
  check_written(to, "normalized_trained", core, data);
}

// A statistic with an earlier reader.
BOOST_AUTO_TEST_CASE(a_statistic_that_is_read_before) {
  const auto net = read(
      t::model_of({t::node("Add", {"x", "m"}, {"a"}), t::node("BatchNormalization", {"a", "s", "s", "m", "v"}, {"y"})},
                  {t::floats("m", {3}, {1, 2, 3}), t::floats("v", {3}, {1, 2, 3}), t::floats("s", {3}, {1, 1, 1})}));
  BOOST_TEST(!net.states.find("m")->trainable());
  BOOST_TEST(!net.states.find("v")->trainable());
  BOOST_TEST(net.states.find("s")->trainable());
}

BOOST_AUTO_TEST_CASE(a_fixed_number_of_images) {
  const auto data = squares(60, 1);
  auto core = core_of(read(classifier(direct, {12, 1, 6, 6})));
  const auto with = [&](std::int64_t batch, const image_dataset& d) {
    return message_of([&] { fit(core, d, loss::cross_entropy{}, optim::adam{}, {.batch = batch}); });
  };
  BOOST_TEST(
      with(16, data) ==
      "fit: the model takes 12 samples at a time; the training data has batches of 16; expected a batch of 12 that "
      "divides the number of samples, or a model whose first extent is open");
  BOOST_TEST(with(12, squares(40, 1)) ==
             "fit: the model takes 12 samples at a time; the training data has batches of 12 and a last one of 4; "
             "expected a batch of 12 that divides the number of samples, or a model whose first extent is open");
  fit(core, data, loss::cross_entropy{}, optim::adam{.lr = 0.02}, {.epochs = 20, .batch = 12, .validation = data});
  BOOST_TEST(trainer(
                 core,
                 [](view<const value> y, view<const value> l) { return value(loss::cross_entropy{}(y[0], l[0])); },
                 nullptr, 0)
                 .evaluate(data, 12, 0)
                 .accuracy == 1);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained) {
  const auto data = squares(12, 1);
  const auto message = [&](saved_net net, const image_dataset& with) {
    auto core = core_of(std::move(net));
    return message_of([&] { fit(core, with, loss::cross_entropy{}, optim::adam{}); });
  };
  BOOST_TEST(message(read(classifier(direct)), with_wrong_labels(12)) ==
             "fit: label 3 of image 2 of the training data is outside 0..2; the model has 3 classes");
  saved_net frozen = read(classifier(direct));
  for (auto& p : frozen.states) p.trainable(false);
  BOOST_TEST(message(std::move(frozen), data) == "fit: no parameter of the model is trainable");
  BOOST_TEST(message(read(classifier(
                         {t::node("SequenceConstruct", {"h"}, {"s"}, {}, {.name = "list"}),
                          t::node("ConcatFromSequence", {"s"}, {"g"}, {t::integer("axis", 1)}, {.name = "joined"})})),
                     data) == "joined: concat_sequence: it runs on the host, between plans, and has no gradient");
  BOOST_TEST(
      message(read(t::model_of({t::node("Cast", {"x"}, {"f"}, {t::integer("to", t::float32)}),
                                t::node("Flatten", {"f"}, {"h"}), t::node("MatMul", {"h", "w"}, {"y"})},
                               {t::floats("w", {36, 3}, spread(108, 1))}, {t::value("x", t::uint8, {"N", 1, 6, 6})})),
              data) == "fit: input `x` of the model is uint8[Nx1x6x6]; field 0 of the training data is float32");
  BOOST_TEST(message(read(classifier({t::node("Identity", {"h"}, {"g"})}, {"N", 1, 3, 12})), data)
                 .starts_with("fit: the model takes [Nx1x3x12]; field 0 of the training data gives [Nx1x6x6]"));
}

BOOST_AUTO_TEST_SUITE_END()
