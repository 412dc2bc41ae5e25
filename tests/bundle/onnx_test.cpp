// Bundles of ONNX files: the bits of a session, for shapes and values of inputs that are given when the file is read.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.bundle;
import lamina.onnx;

#include "bundle_run.h"
#include "message.h"
#include "onnx_writer.h"

namespace t = onnx_test;
using namespace lamina;
using namespace bundle_run;
using engine_test::message_of;

namespace {

#ifdef SANITIZE
const std::string flags = " " SANITIZE " ";
#else
const std::string flags = " ";
#endif

// One layer for one rate; another layer, with more rows, for all other rates.
t::bytes of_rates() {
  const auto branch = [](const char* result, std::vector<t::bytes> nodes) {
    return t::graph{.nodes = std::move(nodes), .outputs = {t::untyped(result)}};
  };
  const t::graph wide = branch("w", {t::node("MatMul", {"input", "weights"}, {"m"}), t::node("Tanh", {"m"}, {"w"})}),
                 twice = branch("d", {t::node("Concat", {"input", "input"}, {"d"}, {t::integer("axis", 0)})});
  std::vector<float> weights;
  for (int i = 0; i < 20; ++i) weights.push_back(0.1f * static_cast<float>(i % 7) - 0.3f);
  return t::model_of(
      {t::node("Equal", {"sr", "rate"}, {"is"}),
       t::node("If", {"is"}, {"y"},
               {t::graph_attribute("then_branch", wide.done()), t::graph_attribute("else_branch", twice.done())}),
       t::node("Shape", {"y"}, {"s"}), t::node("Expand", {"one", "s"}, {"ones"}),
       t::node("Add", {"y", "ones"}, {"output"})},
      {t::floats("weights", {4, 5}, weights), t::longs("rate", {}, {16000}), t::floats("one", {}, {1})},
      {t::value("input", t::float32, {"N", 4}), t::value("sr", t::int64, {})}, {t::untyped("output")});
}
saved_net read(const t::bytes& model, const onnx::read_options& o) {
  return onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx", o);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(onnx_bundles)

BOOST_AUTO_TEST_CASE(a_value_decides_a_branch) {
  const auto at = folder("onnx");
  const auto net = read(of_rates(), {.shapes = {{"input", {3, 4}}}, .numbers = {{"sr", 16000}}});
  BOOST_TEST(net.program->inputs().size() == 1u);
  // The bundle is named for the entry that lenet.c calls.
  bundle::write(*net.program, net.states, {.name = "lenet", .inputs = {{3, 4}}, .directory = at});
  any_tensor x(tensor_type{dtype::float32, {3, 4}}), rate(tensor_type{dtype::int64, {}});
  for (std::size_t i = 0; i < 12; ++i) {
    const float v = static_cast<float>(i) * 0.2f - 1;
    std::memcpy(x.mutable_data() + i * sizeof v, &v, sizeof v);
  }
  const std::int64_t number = 16000;
  std::memcpy(rate.mutable_data(), &number, sizeof number);
  write_bytes(at + "/in", x.data(), x.bytes());
  const auto whole = read(of_rates(), {});  // a session on the unmodified file
  const auto expected = ir::session::owning(whole.program, whole.states).run(std::vector<any_tensor>{x, rate});
  BOOST_TEST(run(at, CC + flags + "-std=c11 -O1 -I. -c " SOURCES "/lenet.c -o main.o && " CXX + flags +
                         "main.o lenet.o -lm -o lenet && ./lenet lenet.weights in out") == "");
  BOOST_TEST(same_as_file(expected[0].elements<float>(), at + "/out"));
}

BOOST_AUTO_TEST_CASE(without_the_value_the_branch_is_named) {
  const auto net = read(of_rates(), {.shapes = {{"input", {3, 4}}}});
  const auto message = message_of([&] {
    bundle::write(*net.program, net.states, {.name = "rates", .inputs = {{3, 4}, {}}, .directory = folder("refused")});
  });
  BOOST_TEST(message.find("host_cond: it runs on the host") != message.npos, message);
}

BOOST_AUTO_TEST_SUITE_END()
