// The reader of ONNX files: the program for each part of a file, and the message for each error.
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

#include "../support/message.h"
#include "../support/onnx_writer.h"

namespace fs = std::filesystem;
namespace t = onnx_test;
using namespace lamina;
using engine_test::message_of;
using t::bytes;
using t::numbers;

namespace {

saved_net read(const bytes& model, const onnx::read_options& o = {}) {
  return onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx", o);
}
any_tensor tensor_of(const shape& s, const std::vector<float>& v) {
  any_tensor made({dtype::float32, s});
  if (!v.empty()) std::memcpy(made.mutable_data(), v.data(), v.size() * sizeof(float));
  return made;
}
std::vector<any_tensor> run(const bytes& model, const std::vector<any_tensor>& inputs = {}) {
  auto net = read(model);
  auto s = ir::session::owning(net.program, std::move(net.states));
  return s.run(view<const any_tensor>(inputs.data(), inputs.size()));
}
std::vector<double> numbers_of(const any_tensor& x) {
  std::vector<double> all;
  with_type(x.element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>)
      for (auto v : x.elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}
using list = std::vector<double>;
std::string words(const shape& s) {
  message_text made;
  made << s;
  return made.string();
}

// The message for a refused file: a file_error or unsupported_error of one line that begins with its name.
std::string refusal(const bytes& model, bool of_file = true) {
  std::string said;
  try {
    read(model);
    BOOST_ERROR("the model loads");
  } catch (const file_error& e) {
    BOOST_TEST(of_file, e.what());
    said = e.what();
  } catch (const unsupported_error& e) {
    BOOST_TEST(!of_file, e.what());
    said = e.what();
  }
  BOOST_TEST(said.starts_with("m.onnx: "), said);
  BOOST_TEST(said.find('\n') == said.npos, said);
  return said;
}
std::string unsupported(const bytes& model) { return refusal(model, false); }
bool has(const std::string& s, std::string_view part) {
  if (s.find(part) != s.npos) return true;
  BOOST_TEST_MESSAGE(s);
  return false;
}

// A model whose output is an initializer.
bytes holding(const bytes& tensor) { return t::model_of({t::node("Identity", {"w"}, {"y"})}, {tensor}, {}); }
any_tensor held(const bytes& tensor) { return run(holding(tensor))[0]; }

// A graph whose output is an outer value or a constant.
t::graph giving(const bytes& op, const t::names& inputs) {
  return {.nodes = {t::node(op, inputs, {"r"})}, .outputs = {t::untyped("r")}};
}

struct folder {
  fs::path path = fs::temp_directory_path() / ("lamina-onnx-" + std::to_string(::getpid()));
  folder() {
    fs::remove_all(path);
    fs::create_directories(path / "model");
  }
  ~folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string write(const fs::path& name, const bytes& b) const {
    std::ofstream(path / name, std::ios::binary).write(b.data(), static_cast<std::streamsize>(b.size()));
    return (path / name).string();
  }
};

}  // namespace

// ---- tensors --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(tensors)

BOOST_AUTO_TEST_CASE(raw_data_of_all_element_types) {
  BOOST_TEST(numbers_of(held(t::tensor("w", t::float32, {2}, t::raw<float>({1.5f, -2})))) == (list{1.5, -2}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::float64, {2}, t::raw<double>({1.5, -2})))) == (list{1.5, -2}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::int8, {2}, t::raw<std::int8_t>({-3, 4})))) == (list{-3, 4}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::uint8, {2}, t::raw<std::uint8_t>({200, 4})))) == (list{200, 4}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::int16, {2}, t::raw<std::int16_t>({-300, 4})))) == (list{-300, 4}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::int32, {2}, t::raw<std::int32_t>({-70000, 4})))) == (list{-70000, 4}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::int64, {1}, t::raw<std::int64_t>({-5'000'000'000})))) ==
             (list{-5'000'000'000}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::boolean, {3}, t::raw<std::uint8_t>({0, 1, 7})))) == (list{0, 1, 1}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::float16, {2}, t::raw<std::uint16_t>({0x3c00, 0xc000})))) ==
             (list{1, -2}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::bfloat16, {2}, t::raw<std::uint16_t>({0x3f80, 0xc000})))) ==
             (list{1, -2}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::uint16, {2}, t::raw<std::uint16_t>({65535, 4})))) == (list{65535, 4}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::uint32, {1}, t::raw<std::uint32_t>({4'000'000'000})))) ==
             (list{4'000'000'000}));
  BOOST_TEST(numbers_of(held(t::tensor("w", t::uint64, {1}, t::raw<std::uint64_t>({1ull << 63})))) ==
             (list{static_cast<double>(1ull << 63)}));
  BOOST_TEST((held(t::tensor("w", t::float32, {0, 3}, "")).shape() == shape{0, 3}));
  BOOST_TEST((held(t::tensor("w", t::float32, {}, t::raw<float>({4}))).shape() == shape{}));
}

BOOST_AUTO_TEST_CASE(repeated_fields_of_all_element_types) {
  BOOST_TEST(numbers_of(held(t::floats("w", {2}, {1.5f, -2}))) == (list{1.5, -2}));
  BOOST_TEST(numbers_of(held(t::typed_tensor<double>("w", t::float64, {2}, 10, {1.5, -2}))) == (list{1.5, -2}));
  BOOST_TEST(numbers_of(held(t::longs("w", {2}, {5, -6}))) == (list{5, -6}));
  for (auto type : {t::int8, t::int16, t::int32})
    BOOST_TEST(numbers_of(held(t::typed_tensor<std::int64_t>("w", type, {2}, 5, {5, -6}))) == (list{5, -6}));
  BOOST_TEST(numbers_of(held(t::typed_tensor<std::int64_t>("w", t::uint8, {2}, 5, {5, 250}))) == (list{5, 250}));
  BOOST_TEST(numbers_of(held(t::typed_tensor<std::int64_t>("w", t::boolean, {3}, 5, {0, 1, 2}))) == (list{0, 1, 1}));
  BOOST_TEST(numbers_of(held(t::typed_tensor<std::int64_t>("w", t::float16, {2}, 5, {0x3c00, 0xc000}))) ==
             (list{1, -2}));
  BOOST_TEST(numbers_of(held(t::typed_tensor<std::int64_t>("w", t::bfloat16, {1}, 5, {0x3f80}))) == (list{1}));
  // Numbers in unpacked fields.
  const bytes apart = t::message().one_by_one(1, {2}).number(2, t::int64).put(8, "w").one_by_one(7, {5, -6}).done();
  BOOST_TEST(numbers_of(held(apart)) == (list{5, -6}));
}

// Two or four elements in a byte, the first in the lowest bits.
BOOST_AUTO_TEST_CASE(elements_of_less_than_a_byte) {
  const auto bits = [](std::int32_t type, const numbers& dims, const bytes& raw) {
    std::vector<int> all;
    const any_tensor made = held(t::tensor("w", type, dims, raw));
    for (std::int64_t i = 0; i < made.shape().size(); ++i) all.push_back(static_cast<signed char>(made.data()[i]));
    return all;
  };
  BOOST_TEST(bits(t::uint4, {3}, "\x21\x0f") == (std::vector<int>{1, 2, 15}));
  BOOST_TEST(bits(t::int4, {3}, "\x21\x0f") == (std::vector<int>{1, 2, -1}));
  BOOST_TEST(bits(t::uint2, {5}, "\xe4\x03") == (std::vector<int>{0, 1, 2, 3, 3}));
  BOOST_TEST(bits(t::int2, {5}, "\xe4\x03") == (std::vector<int>{0, 1, -2, -1, -1}));
  BOOST_TEST(
      has(refusal(holding(t::tensor("w", t::uint4, {3}, "\x21"))), "expected 2 bytes for 3 elements of uint4; got 1"));
  const any_tensor typed = held(t::typed_tensor<std::int64_t>("w", t::uint4, {3}, 5, {0x21, 0x0f}));
  BOOST_TEST(std::to_integer<int>(typed.data()[2]) == 15);
}

BOOST_AUTO_TEST_CASE(operators_of_one_operand_of_strings_take_no_second_one) {
  const std::vector<bytes> two{t::value("x", t::text, {2}), t::value("z", t::text, {2})};
  for (const bytes op : {"Unique", "Shape", "Size"})
    BOOST_TEST(has(refusal(t::model_of({t::node(op, {"x", "z"}, {"y"})}, {}, two)), "operand 1 must not be strings"));
}
BOOST_AUTO_TEST_CASE(strings_are_no_raw_data) {
  const auto strings = [](const numbers& dims, const std::vector<bytes>& all) {
    return t::message().packed(1, dims).number(2, t::text).put(6, all).put(8, "w").done();
  };
  BOOST_TEST(message_of([&] { read(holding(strings({2}, {"a", bytes(1000, 'b')}))); }) == "");
  BOOST_TEST(has(refusal(holding(strings({3}, {"a", "b"}))), "it has 2 numbers; expected 3"));
  for (std::int64_t n : {1LL, 1LL << 28, 1LL << 50})
    BOOST_TEST(has(refusal(holding(t::tensor("w", t::text, {n}, ""))), "strings are not stored as raw data"));
  BOOST_TEST(has(refusal(t::model{.main = {.sparse_initializers = {t::sparse_tensor(strings({1}, {"a"}),
                                                                                    t::longs("", {1}, {0}), {2})}}}
                             .done()),
                 "a sparse tensor of strings is not supported"));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  BOOST_TEST(has(refusal(holding(t::tensor("w", t::float32, {3}, t::raw<float>({1, 2})))),
                 "initializer `w`: expected 12 bytes for 3 elements of float32; got 8"));
  BOOST_TEST(has(refusal(holding(t::floats("w", {3}, {1, 2}))), "initializer `w`: it has 2 numbers; expected 3"));
  BOOST_TEST(has(refusal(holding(t::floats("w", {-1}, {1}))), "initializer `w`: extent -1 is negative"));
  BOOST_TEST(has(refusal(holding(t::floats("w", {1LL << 40, 1LL << 40}, {}))), "multiply to more than 63 bits"));
  BOOST_TEST(has(refusal(holding(t::floats("w", {0, 1LL << 40, 1LL << 40}, {}))), "multiply to more than 63 bits"));
  BOOST_TEST(has(refusal(holding(t::floats("w", {1LL << 40}, {1}))), "it has 1 numbers; expected 1099511627776"));
  BOOST_TEST(
      has(unsupported(holding(t::floats("w", numbers(9, 1), {1}))), "initializer `w` has rank 9; the limit is 8"));
  BOOST_TEST(has(unsupported(holding(t::tensor("w", t::complex64, {1}, bytes(8, '\0')))), "complex64"));
  BOOST_TEST(has(unsupported(holding(t::tensor("w", 99, {1}, bytes(8, '\0')))), "undefined"));
  BOOST_TEST(has(unsupported(holding(t::tensor("w", -7, {1}, bytes(8, '\0')))), "undefined"));
  BOOST_TEST(has(refusal(holding(t::floats("", {1}, {1}))), "an initializer has no name"));
  const bytes in_segments = t::message().put(3, t::message().number(1, 0).done()).put(8, "w").done();
  BOOST_TEST(has(refusal(holding(in_segments)), "segments"));
}

BOOST_AUTO_TEST_CASE(sparse_tensors_are_written_out) {
  const auto model = [](const bytes& sparse) {
    return t::model{.main = {.nodes = {t::node("Identity", {"w"}, {"y"})},
                             .outputs = {t::untyped("y")},
                             .sparse_initializers = {sparse}}}
        .done();
  };
  const auto flat = t::sparse_tensor(t::floats("w", {2}, {5, 6}), t::longs("", {2}, {1, 3}), {2, 2});
  BOOST_TEST(numbers_of(run(model(flat))[0]) == (list{0, 5, 0, 6}));
  const auto rows = t::sparse_tensor(t::floats("w", {2}, {5, 6}), t::longs("", {2, 2}, {0, 1, 1, 0}), {2, 2});
  BOOST_TEST(numbers_of(run(model(rows))[0]) == (list{0, 5, 6, 0}));
  BOOST_TEST(has(refusal(model(t::sparse_tensor(t::floats("w", {1}, {5}), t::longs("", {1}, {4}), {2, 2}))),
                 "sparse initializer `w`: an index of a sparse tensor is out of range"));
  BOOST_TEST(
      has(refusal(model(t::sparse_tensor(t::floats("w", {1}, {5}), t::longs("", {1}, {-1}), {2, 2}))), "out of range"));
  BOOST_TEST(has(refusal(model(t::sparse_tensor(t::floats("w", {1}, {5}), t::longs("", {1}, {0}), {1LL << 30}))),
                 "2^28 bytes"));
  // Each is small enough, but their sum is not.
  std::vector<bytes> many;
  for (int i = 0; i < 100; ++i)
    many.push_back(t::sparse_tensor(t::floats("w" + std::to_string(i), {1}, {5}), t::longs("", {1}, {0}), {1 << 24}));
  BOOST_TEST(has(refusal(t::model{.main = {.sparse_initializers = many}}.done()), "too many bytes when dense"));
}

BOOST_AUTO_TEST_CASE(external_data_lie_beneath_the_folder) {
  const folder here;
  const auto model = [&](const std::vector<std::pair<bytes, bytes>>& entries, const numbers& dims = {2}) {
    return here.write("model/m.onnx", holding(t::external_tensor("w", t::float32, dims, entries)));
  };
  const auto why = [&](const std::vector<std::pair<bytes, bytes>>& entries, const numbers& dims = {2}) {
    const auto path = model(entries, dims);
    return message_of([&] { onnx::load(path); });
  };
  here.write("model/data", t::raw<float>({1, 2, 3, 4}));
  here.write("secret", t::raw<float>({1, 2, 3, 4}));
  fs::create_directory(here.path / "model/deep");
  here.write("model/deep/data", t::raw<float>({7, 8}));
  auto net = onnx::load(model({{"location", "data"}, {"offset", "8"}, {"length", "8"}}));
  BOOST_TEST(numbers_of(ir::session::owning(net.program, std::move(net.states)).run(view<const any_tensor>())[0]) ==
             (list{3, 4}));
  BOOST_TEST(why({{"location", "deep/data"}}) == "");
  for (const char* bad :
       {"../secret", "deep/../../secret", "/etc/passwd", "", ".", "nothing", "deep", "data\n", "deep/../data"}) {
    const auto said = why({{"location", bad}});
    BOOST_TEST(said.find("m.onnx") != said.npos, bad << ": " << said);
    BOOST_TEST(said.find('\n') == said.npos, said);
  }
  fs::create_symlink(here.path / "secret", here.path / "model/link");
  fs::create_symlink(here.path, here.path / "model/up");
  fs::create_symlink("deep", here.path / "model/inside");
  BOOST_TEST(has(why({{"location", "link"}}), "`link` is outside the model's folder"));
  BOOST_TEST(has(why({{"location", "up/secret"}}), "is outside the model's folder"));
  BOOST_TEST(why({{"location", "inside/data"}}) == "");
  BOOST_TEST(has(why({{"location", "data"}, {"offset", "12"}}),
                 "expected 8 bytes of `data` from byte 12; got a file of 16 bytes"));
  BOOST_TEST(has(why({{"location", "data"}, {"offset", "9223372036854775807"}}), "; got a file of 16 bytes"));
  BOOST_TEST(has(why({{"location", "data"}, {"offset", "-4"}}), "`offset`"));
  BOOST_TEST(has(why({{"location", "data"}, {"offset", "4x"}}), "`offset`"));
  BOOST_TEST(has(why({{"location", "data"}, {"length", "4"}}), "expected 8 bytes for 2 elements of float32; got 4"));
  BOOST_TEST(has(why({{"location", "data"}}, {1LL << 50}), "; got a file of 16 bytes"));
  BOOST_TEST(has(why({{"location", "data"}}, {1LL << 60}), "more than 63 bits"));
  BOOST_TEST(has(refusal(holding(t::external_tensor("w", t::float32, {2}, {{"location", "data"}}))),
                 "a model in memory has no folder"));
  // Pipes and devices are refused without waiting for them.
  BOOST_TEST(::mkfifo((here.path / "model/pipe").c_str(), 0600) == 0);
  BOOST_TEST(has(why({{"location", "pipe"}}), "not a regular file"));
  BOOST_TEST(has(message_of([&] { onnx::load((here.path / "model/pipe").string()); }), "not a regular file"));
  // Many tensors that share one file.
  here.write("model/large", bytes(1 << 20, '\0'));
  std::vector<bytes> many;
  for (int i = 0; i < 200; ++i)
    many.push_back(t::external_tensor("w" + std::to_string(i), t::float32, {1 << 18}, {{"location", "large"}}));
  const auto path = here.write("model/many.onnx", t::model_of({}, many, {}, {}));
  BOOST_TEST(has(message_of([&] { onnx::load(path); }), "many share the same bytes"));
}

BOOST_AUTO_TEST_CASE(a_tensor_in_a_file_of_its_own) {
  const folder here;
  const auto good = onnx::load_value(here.write("t.pb", t::longs("n", {2}, {4, 5})));
  BOOST_TEST(good.name == "n");
  BOOST_TEST(numbers_of(good.value.as_tensor()) == (list{4, 5}));
  const auto path = here.write("t.pb", t::longs("n", {3}, {4, 5}));
  BOOST_TEST(has(message_of([&] { onnx::load_value(path); }), "t.pb: the tensor: it has 2 numbers"));
  BOOST_CHECK_THROW(onnx::load_value((here.path / "none").string()), file_error);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- graphs ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(graphs)

BOOST_AUTO_TEST_CASE(inputs_and_their_extents) {
  const auto net =
      read(t::model_of({t::node("Relu", {"x"}, {"y"})}, {}, {t::value("x", t::float32, {"batch", 3, ""})}));
  const shape& s = net.program->at(net.program->inputs()[0]).results[0].dims;
  BOOST_TEST((s == shape{dim::named("batch"), 3, dyn}));
  BOOST_TEST(has(refusal(t::model_of({}, {}, {t::value("x", t::float32, {-2})}, {})), "input `x` has the extent -2"));
  BOOST_TEST(has(refusal(t::model_of({}, {}, {t::untyped("x")}, {})), "input `x` has no type"));
  BOOST_TEST(has(unsupported(t::model_of({}, {}, {t::unshaped("x", t::float32)}, {})), "input `x` has no shape"));
  BOOST_TEST(has(unsupported(t::model_of({}, {}, {t::value("x", t::complex64, {1})}, {})), "complex64"));
  BOOST_TEST(
      has(unsupported(t::model_of({}, {}, {t::value("x", t::float32, t::extents(9, 1))}, {})), "more than 8 axes"));
  BOOST_TEST(has(refusal(t::model_of({}, {}, {t::value("x", t::float32, {1LL << 40, 1LL << 40})}, {})),
                 "more elements than 2^40"));
  const bytes map = t::message().put(5, t::message().number(1, t::int64).done()).done();
  BOOST_TEST(has(unsupported(t::model_of({}, {}, {t::value_of_type("x", map)}, {})), "is a map or a sparse tensor"));
  bytes deep = t::tensor_type(t::float32, {1});
  for (int i = 0; i < 200; ++i) deep = t::message().put(4, t::message().put(1, deep).done()).done();
  BOOST_TEST(has(refusal(t::model_of({}, {}, {t::value_of_type("x", deep)}, {})), "nested deeper than 100"));
  BOOST_TEST(has(refusal(t::model_of({}, {}, {t::value("x", t::float32, {1}), t::value("x", t::float32, {1})}, {})),
                 "two values of a graph are named `x`"));
}

BOOST_AUTO_TEST_CASE(shapes_that_the_caller_gives) {
  const auto model = t::model_of({t::node("Relu", {"x"}, {"y"})}, {}, {t::unshaped("x", t::float32)});
  const auto net = read(model, {.shapes = {{"x", {4, 5}}}});
  BOOST_TEST((net.program->type(net.program->outputs()[0].value).dims == shape{4, 5}));
  BOOST_TEST(has(message_of([&] { read(model, {.shapes = {{"x", {4}}, {"z", {4}}}}); }),
                 "m.onnx: the net has no input `z`; its inputs are `x`"));
  BOOST_TEST((read(model, {.shapes = {{"", {4, 5}}}}).inputs()[0].type.dims == shape{4, 5}));
  BOOST_TEST(has(message_of([&] { read(model, {.shapes = {{"", {4}}, {"x", {5}}}}); }), "input `x` has two shapes"));
  const auto declared = t::model_of({t::node("Add", {"x", "k"}, {"y"})}, {},
                                    {t::value("x", t::float32, {"N", 2}), t::value("k", t::float32, {2})});
  const auto said = [&](const std::vector<std::pair<std::string, shape>>& shapes) {
    return message_of([&] { read(declared, {.shapes = shapes}); });
  };
  BOOST_TEST((read(declared, {.shapes = {{"x", {3, 2}}}}).inputs()[0].type.dims == shape{3, 2}));
  BOOST_TEST(has(said({{"x", {3}}}), "m.onnx: input `x` is [Nx2]; the given shape is [3]"));
  BOOST_TEST(has(said({{"x", {3, 4}}}), "m.onnx: input `x` is [Nx2]; the given shape is [3x4]"));
  BOOST_TEST(has(said({{"", {3, 2}}}), "the shape [3x2] has no input name; expected one, since the net has 2 inputs"));
}

// A batch norm is folded into the weights before it, unless the unnormalized result has other readers.
BOOST_AUTO_TEST_CASE(batch_norms_that_stay) {
  const auto missed = [](const char* other) {
    const std::vector<float> two{0.5f, 2};
    return read(
               t::model_of({t::node("Conv", {"x", "w"}, {"c"}, {}, {.name = "first"}),
                            t::node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"n"}),
                            t::node("Add", {"n", other}, {"y"})},
                           {t::floats("w", {2, 2, 1, 1}, {1, 2, 3, 4}), t::floats("scale", {2}, two),
                            t::floats("shift", {2}, two), t::floats("mean", {2}, two), t::floats("variance", {2}, two)},
                           {t::value("x", t::float32, {"N", 2, 3, 3})}))
        .optimized()
        .missed;
  };
  BOOST_TEST(missed("x").empty());
  const auto why = missed("c");
  BOOST_REQUIRE_EQUAL(why.size(), 1u);
  BOOST_TEST(has(why[0], "conv2d first"), why[0]);
  BOOST_TEST(has(why[0], "after it: its result has another reader"), why[0]);
}

BOOST_AUTO_TEST_CASE(values_that_the_caller_gives) {
  const auto model = t::model_of({t::node("Add", {"x", "k"}, {"y"})}, {},
                                 {t::value("x", t::float32, {2}), t::value("k", t::float32, {2})});
  const auto with = [&](const onnx::read_options& o) {
    const auto net = read(model, o);
    auto s = ir::session::owning(net.program, net.states);
    return numbers_of(s.run(std::vector<any_tensor>{tensor_of({2}, {1, 2})})[0]);
  };
  BOOST_TEST(with({.values = {{"k", tensor_of({2}, {3, 4})}}}) == (list{4, 6}));
  BOOST_TEST(with({.numbers = {{"k", 0.5}}}) == (list{1.5, 2.5}));
  const auto said = [&](const onnx::read_options& o) { return message_of([&] { read(model, o); }); };
  BOOST_TEST(has(said({.values = {{"k", tensor_of({3}, {3, 4, 5})}}}),
                 "m.onnx: input `k` is float32[2]; the given value is float32[3]"));
  BOOST_TEST(has(said({.values = {{"k", any_tensor()}}}), "the given value is empty"));
  BOOST_TEST(has(said({.numbers = {{"z", 1}}}), "the net has no input `z`; its inputs are `k`, `x`"));
  const auto bytes_of = t::model_of({t::node("Identity", {"k"}, {"y"})}, {}, {t::value("k", t::int8, {"N"})});
  const auto refused = [&](double v) {
    return message_of([&] { read(bytes_of, {.shapes = {{"k", {2}}}, .numbers = {{"k", v}}}); });
  };
  BOOST_TEST(has(refused(128), "input `k` is int8[2]; the number 128 does not fit"));
  BOOST_TEST(has(refused(0.5), "the number 0.5 does not fit"));
  BOOST_TEST(has(
      message_of([&] { read(bytes_of, {.shapes = {{"k", {(std::int64_t(256) << 20) + 1}}}, .numbers = {{"k", 1}}}); }),
      "a single number fills at most 256 MiB"));
  BOOST_TEST(has(message_of([&] { read(bytes_of, {.numbers = {{"k", 1}}}); }), ": give a shape too"));
}

BOOST_AUTO_TEST_CASE(shape_arithmetic_keeps_an_open_batch) {
  const auto model = t::model_of(
      {t::node("Shape", {"x"}, {"s"}), t::node("Gather", {"s", "zero"}, {"n"}, {t::integer("axis", 0)}),
       t::node("Unsqueeze", {"n", "first"}, {"nv"}), t::node("Concat", {"nv", "rest"}, {"to"}, {t::integer("axis", 0)}),
       t::node("Reshape", {"x", "to"}, {"y"})},
      {t::longs("zero", {}, {0}), t::longs("first", {1}, {0}), t::longs("rest", {2}, {-1, 2})},
      {t::value("x", t::float32, {"N", 2, 4})});
  const auto net = read(model);
  const shape& s = net.program->type(net.program->outputs()[0].value).dims;
  BOOST_TEST(words(s) == "[Nx4x2]");
  const auto y = run(model, {tensor_of({3, 2, 4}, std::vector<float>(24, 1))});
  BOOST_TEST((y[0].shape() == shape{3, 4, 2}));
}

// Shape arithmetic works on an empty shape, too.
BOOST_AUTO_TEST_CASE(shape_arithmetic_of_no_extents) {
  const auto model =
      t::model_of({t::node("Shape", {"x"}, {"s"}), t::node("Slice", {"s", "two", "two"}, {"none"}),
                   t::node("Add", {"none", "n"}, {"y"})},
                  {t::longs("two", {1}, {2})}, {t::value("x", t::float32, {"N", "M"}), t::value("n", t::int64, {1})});
  any_tensor n({dtype::int64, {1}});
  BOOST_TEST((run(model, {tensor_of({1, 1}, {1}), n})[0].shape() == shape{0}));
}

BOOST_AUTO_TEST_CASE(initializers_become_states_under_their_names) {
  const auto net = read(t::model_of({t::node("MatMul", {"x", "w"}, {"h"}), t::node("Add", {"h", "b"}, {"y"})},
                                    {t::floats("w", {3, 2}, {1, 2, 3, 4, 5, 6}), t::floats("b", {}, {1})},
                                    {t::value("x", t::float32, {2, 3}), t::value("w", t::float32, {3, 2})}));
  BOOST_TEST(net.program->inputs().size() == 1u);
  BOOST_TEST(net.states.size() == 1u);
  BOOST_TEST(net.states[0].name() == "w");
  const auto two = t::model_of({}, {t::floats("w", {1}, {1}), t::floats("w", {1}, {1})}, {}, {});
  BOOST_TEST(has(refusal(two), "two values of a graph are named `w`"));
}

BOOST_AUTO_TEST_CASE(names_of_one_parameter_are_one_state) {
  auto net = read(t::model_of(
      {t::node("Identity", {"w"}, {"v"}), t::node("Identity", {"v"}, {"u"}), t::node("MatMul", {"x", "u"}, {"g"}),
       t::node("MatMul", {"g", "v"}, {"h"}), t::node("MatMul", {"h", "w"}, {"y"})},
      {t::floats("w", {2, 2}, {1, 2, 3, 4})}, {t::value("x", t::float32, {1, 2})}));
  BOOST_TEST(net.states.size() == 1u);
  auto s = ir::session::owning(net.program, std::move(net.states));
  const any_tensor x = tensor_of({1, 2}, {1, 0});
  BOOST_TEST(numbers_of(s.run(view<const any_tensor>(&x, 1))[0]) == (list{37, 54}));
}

// User-defined operators.
BOOST_AUTO_TEST_CASE(own_operators) {
  const bytes model =
      t::model_of({t::node("Gate", {"x"}, {"g"}, {t::real("slope", 2)}, {.name = "gate", .domain = "own"}),
                   t::node("Relu", {"g"}, {"y"})});
  BOOST_TEST(has(unsupported(model), "node `gate` (own.Gate), opset 1: lamina does not know this operator"));
  onnx::read_options o;
  o.own.push_back({"own", "Gate", [](const onnx::own_node& n) {
                     BOOST_TEST(n.name == "gate");
                     BOOST_TEST(n.opset == 1);
                     BOOST_TEST(n.integer("count", 7) == 7);
                     const ir::value x = n[0];
                     return std::vector<ir::value>{x * sigmoid(x * n.real("slope"))};
                   }});
  const auto net = read(model, o);
  const auto y = net.factory().create()({tensor_of({2, 3}, {1, 2, 3, -1, -2, -3})})[0];
  BOOST_TEST(numbers_of(y)[0] == 1 / (1 + std::exp(-2.0)), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(numbers_of(y)[3] == 0.0);
  // They override the library's.
  o.own.push_back({"ai.onnx", "Relu", [](const onnx::own_node& n) { return std::vector<ir::value>{n[0]}; }});
  BOOST_TEST(numbers_of(read(model, o).factory().create()({tensor_of({2, 3}, {1, 2, 3, -1, -2, -3})})[0])[3] < 0);
  const auto said = [&](auto f) {
    o.own[0].convert = f;
    return message_of([&] { read(model, o); });
  };
  using values = std::vector<ir::value>;
  const std::string gate = "m.onnx: node `gate` (own.Gate), opset 1: ";
  BOOST_TEST(said([](const onnx::own_node&) { return values{}; }) ==
             gate + "its custom function returns no result 0, `g`");
  BOOST_TEST(said([](const onnx::own_node& n) { return values{n[1]}; }) == gate + "operand 1 is missing");
  BOOST_TEST(said([](const onnx::own_node& n) { return values{n[0] * n.real("rate")}; }) ==
             gate + "attribute `rate` is missing");
  BOOST_TEST(has(said([](const onnx::own_node& n) { return values{matmul(n[0], n[0])}; }), gate + "matmul"));
  ir::program other;
  BOOST_TEST(said([&](const onnx::own_node& n) { return values{other.input("z", n[0].type())}; }) ==
             gate + "its custom function returns a value of another program");
  BOOST_TEST(said(std::function<values(const onnx::own_node&)>()) ==
             gate + "the operator is bound to an empty function");
}

// Each call of a function has separate states for values computed from parameters; names inside are local.
BOOST_AUTO_TEST_CASE(states_of_functions_have_names_of_their_own) {
  const t::function f{.name = "f",
                      .inputs = {"a", "w"},
                      .outputs = {"b"},
                      .nodes = {t::node("Transpose", {"w"}, {"wt"}), t::node("MatMul", {"a", "wt"}, {"b"})}};
  const t::model m{
      .main = {.nodes = {t::node("f", {"x", "w"}, {"h"}, {}, {.name = "one", .domain = "own"}),
                         t::node("f", {"h", "v"}, {"y"}, {}, {.name = "two", .domain = "own"})},
               .inputs = {t::value("x", t::float32, {1, 2})},
               .outputs = {t::untyped("y")},
               .initializers = {t::floats("w", {2, 2}, {1, 2, 3, 4}), t::floats("v", {2, 2}, {0, 1, 1, 0})}},
      .functions = {f.done()}};
  BOOST_TEST(numbers_of(run(m.done(), {tensor_of({1, 2}, {1, 1})})[0]) == (list{7, 3}));
}

BOOST_AUTO_TEST_CASE(attributes_of_calls_and_their_defaults) {
  const t::function f{.name = "f",
                      .inputs = {"a", "b"},
                      .outputs = {"r"},
                      .nodes = {t::node("LeakyRelu", {"a"}, {"h"}, {t::reference("alpha", "slope", 1)}),
                                t::node("Elu", {"h"}, {"r"}, {t::reference("alpha", "other", 1)})},
                      .defaults = {t::real("slope", 0.5f)},
                      .attributes = {"other"}};
  const auto model = [&](const std::vector<bytes>& attributes) {
    return t::model{.main = {.nodes = {t::node("f", {"x"}, {"y"}, attributes, {.domain = "own"})},
                             .inputs = {t::value("x", t::float32, {2})},
                             .outputs = {t::untyped("y")}},
                    .functions = {f.done()}}
        .done();
  };
  const auto y = [&](const std::vector<bytes>& attributes) {
    return numbers_of(run(model(attributes), {tensor_of({2}, {-1, 2})})[0]);
  };
  BOOST_TEST(std::abs(y({})[0] - (std::exp(-0.5) - 1)) < 1e-6);
  BOOST_TEST(std::abs(y({t::real("slope", 0.25f)})[0] - (std::exp(-0.25) - 1)) < 1e-6);
  BOOST_TEST(std::abs(y({t::real("slope", 0.25f), t::real("other", 2)})[0] - 2 * (std::exp(-0.25) - 1)) < 1e-6);
  BOOST_TEST(has(refusal(model({t::integer("slope", 1)})), "attribute `alpha` has an unexpected type"));
}

BOOST_AUTO_TEST_CASE(conditions) {
  const auto model = [](const bytes& condition, const std::vector<bytes>& initializers, std::vector<bytes> inputs) {
    inputs.push_back(t::value("x", t::float32, {2}));
    return t::model_of({t::node("If", {condition}, {"y"},
                                {t::graph_attribute("then_branch", giving("Neg", {"x"}).done()),
                                 t::graph_attribute("else_branch", giving("Abs", {"x"}).done())})},
                       initializers, inputs);
  };
  const auto known = model("c", {t::tensor("c", t::boolean, {}, bytes(1, '\1'))}, {});
  BOOST_TEST(numbers_of(run(known, {tensor_of({2}, {1, -2})})[0]) == (list{-1, 2}));
  const auto open = model("c", {}, {t::value("c", t::boolean, {})});
  any_tensor no({dtype::boolean, {}});
  BOOST_TEST(numbers_of(run(open, {no, tensor_of({2}, {1, -2})})[0]) == (list{1, 2}));
}

// A loop that runs to its trip count is a scan, which a plan can hold; others run on the host.
BOOST_AUTO_TEST_CASE(loops) {
  const auto step = [](const bytes& next, const std::vector<bytes>& more) {
    t::graph g{
        .nodes = {t::node("Add", {"h", "x"}, {"sum"}), t::node("Neg", {"sum"}, {"y"})},
        .inputs = {t::value("i", t::int64, {}), t::value("before", t::boolean, {}), t::value("h", t::float32, {2})},
        .outputs = {t::untyped(next), t::untyped("sum"), t::untyped("y")}};
    g.nodes.insert(g.nodes.end(), more.begin(), more.end());
    return t::graph_attribute("body", g.done());
  };
  const auto number = [](const bytes& name, std::int64_t n) {
    return t::tensor(name, t::int64, {}, bytes(reinterpret_cast<const char*>(&n), sizeof n));
  };
  const auto is_true = [](const bytes& name) { return t::tensor(name, t::boolean, {}, bytes(1, '\1')); };
  const auto model = [&](const bytes& trips, const bytes& condition, const bytes& body,
                         const std::vector<bytes>& more = {}, std::vector<bytes> inputs = {}) {
    std::vector<bytes> initializers{number("three", 3), number("none", 0), number("two", 2), is_true("yes")};
    inputs.push_back(t::value("x", t::float32, {2}));
    std::vector<bytes> nodes = more;
    nodes.push_back(t::node("Loop", {trips, condition, "x"}, {"last", "all"}, {body}));
    return t::model_of(nodes, initializers, inputs, {t::untyped("last"), t::untyped("all")});
  };
  const bytes same = step("before", {}), less = step("next", {t::node("Less", {"i", "two"}, {"next"})});
  const auto on_host = [](const bytes& m) { return !run_on_host_in(*read(m).program).empty(); };
  const auto x = tensor_of({2}, {1, -2});
  const auto results = [&](const bytes& m, const list& last, const list& all) {
    const auto made = run(m, {x});
    BOOST_TEST(numbers_of(made[0]) == last);
    BOOST_TEST(numbers_of(made[1]) == all);
  };
  const list after_three{4, -8}, each_of_three{-2, 4, -3, 6, -4, 8};
  for (const bytes condition : {"yes", ""}) {
    const bytes m = model("three", condition, same);
    BOOST_TEST(!on_host(m));
    results(m, after_three, each_of_three);
  }
  BOOST_TEST(!on_host(model("none", "yes", same)));
  results(model("none", "yes", same), {1, -2}, {});
  // The extent of an input.
  const bytes of_shape = model("count", "yes", same, {t::node("Size", {"x"}, {"count"})});
  BOOST_TEST(!on_host(of_shape));
  results(of_shape, {3, -6}, {-2, 4, -3, 6});
  // The body ends the loop, or a run decides how long it is.
  BOOST_TEST(on_host(model("three", "yes", less)));
  results(model("three", "yes", less), after_three, each_of_three);
  BOOST_TEST(on_host(model("n", "yes", same, {}, {t::value("n", t::int64, {})})));
  // A shape that depends on the iteration.
  const bytes growing =
      step("before", {t::node("Range", {"none", "i", "three"}, {"unread"}), t::node("Size", {"unread"}, {"s"}),
                      t::node("Cast", {"s"}, {"f"}, {t::integer("to", t::float32)})});
  results(model("three", "yes", growing), after_three, each_of_three);
}

// Branches with equal forms of open extents, but different extents at run time.
BOOST_AUTO_TEST_CASE(conditions_with_open_extents) {
  const auto twice =
      t::graph{.nodes = {t::node("Concat", {"x", "x"}, {"r"}, {t::integer("axis", 0)})}, .outputs = {t::untyped("r")}};
  const auto first = t::graph{.nodes = {t::node("Slice", {"x", "from", "to"}, {"r"})},
                              .outputs = {t::untyped("r")},
                              .initializers = {t::tensor("from", t::int64, {1}, bytes(8, '\0')),
                                               t::tensor("to", t::int64, {1}, '\1' + bytes(7, '\0'))}};
  const auto model = t::model_of(
      {t::node("If", {"c"}, {"y"},
               {t::graph_attribute("then_branch", twice.done()), t::graph_attribute("else_branch", first.done())})},
      {}, {t::value("c", t::boolean, {}), t::value("x", t::float32, {"N"})});
  any_tensor yes({dtype::boolean, {}}), no({dtype::boolean, {}});
  *reinterpret_cast<bool*>(yes.mutable_data()) = true;
  BOOST_TEST(numbers_of(run(model, {yes, tensor_of({2}, {1, -2})})[0]) == (list{1, -2, 1, -2}));
  BOOST_TEST(numbers_of(run(model, {no, tensor_of({2}, {1, -2})})[0]) == (list{1}));
}

// Converters append inserted nodes after their readers, also for values that a branch reads.
BOOST_AUTO_TEST_CASE(nodes_in_another_order) {
  const auto x = tensor_of({2}, {1, -2});
  const auto behind =
      t::model_of({t::node("Relu", {"a"}, {"y"}), t::node("Neg", {"x"}, {"a"})}, {}, {t::value("x", t::float32, {2})});
  BOOST_TEST(numbers_of(run(behind, {x})[0]) == (list{0, 2}));
  const auto inside = t::model_of(
      {t::node("If", {"c"}, {"y"},
               {t::graph_attribute("then_branch",
                                   t::graph{.nodes = {t::node("Abs", {"b"}, {"r"}), t::node("Neg", {"a"}, {"b"})},
                                            .outputs = {t::untyped("r")}}
                                       .done()),
                t::graph_attribute("else_branch", giving("Neg", {"x"}).done())}),
       t::node("Exp", {"z"}, {"a"}), t::node("Sub", {"x", "x"}, {"z"})},
      {}, {t::value("c", t::boolean, {}), t::value("x", t::float32, {2})});
  any_tensor yes({dtype::boolean, {}});
  *reinterpret_cast<bool*>(yes.mutable_data()) = true;
  BOOST_TEST(numbers_of(run(inside, {yes, x})[0]) == (list{1, 1}));
}

BOOST_AUTO_TEST_CASE(what_else_a_file_says_of_itself) {
  const t::model m{.main = {.nodes = {t::node("Relu", {"x"}, {"y"})},
                            .inputs = {t::value("x", t::float32, {2})},
                            .outputs = {t::untyped("y")}},
                   .metadata = {t::entry("author", "somebody")},
                   .producer = "writer"};
  const auto net = read(m.done());
  BOOST_TEST(net.metadata.at("author") == "somebody");
  BOOST_TEST(net.metadata.at("producer") == "writer");
}

BOOST_AUTO_TEST_CASE(optional_operands_are_left_out) {
  const auto y = run(t::model_of({t::node("Clip", {"x", "", "high"}, {"y"})}, {t::floats("high", {}, {1})},
                                 {t::value("x", t::float32, {2})}),
                     {tensor_of({2}, {-5, 5})});
  BOOST_TEST(numbers_of(y[0]) == (list{-5, 1}));
  BOOST_TEST(has(refusal(t::model_of({t::node("Add", {"x", ""}, {"y"})})), "operand 1 is missing"));
}

BOOST_AUTO_TEST_SUITE_END()

// ---- files that lie -------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_AUTO_TEST_CASE(files_that_are_no_models) {
  BOOST_TEST(has(refusal(""), "it has no graph"));
  BOOST_TEST(has(refusal("hello, world"), "not an ONNX file"));
  BOOST_TEST(has(refusal(bytes(100, '\xff')), "not an ONNX file"));
  BOOST_TEST(has(unsupported(t::model{.ir = 2}.done()), "IR version 2"));
  BOOST_TEST(has(refusal(t::message().number(1, 9).number(7, 3).done()), "a field has an unexpected type"));
  BOOST_TEST(has(refusal(t::message().put(1, "x").put(7, "").done()), "a field has an unexpected type"));
  BOOST_TEST(has(refusal(t::message().number(1, 9).put(7, t::message().put(1, bytes("\x0a\x7f", 2)).done()).done()),
                 "a length exceeds the remaining bytes"));
  std::vector<bytes> opsets(2000, t::opset("a", 1));
  BOOST_TEST(has(refusal(t::model{.opsets = opsets}.done()), "more than 1000 opsets"));
}

BOOST_AUTO_TEST_CASE(edges_and_names) {
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"z"}, {"y"}, {}, {.name = "n"})})),
                 "node `n` (Relu), opset 18: it reads `z`, which no input, initializer or earlier node defines"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"y"}, {"y"})})), "it reads `y`"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"b"}, {"a"}), t::node("Relu", {"a"}, {"b"})})), "it reads `b`"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"x"}, {"y"}), t::node("Relu", {"x"}, {"y"})})),
                 "two values of a graph are named `y`"));
  BOOST_TEST(
      has(refusal(t::model_of({t::node("Relu", {"x"}, {"z"})})), "output `y` of a graph is not defined by a node"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"no\nsuch\x1b[2J"}, {"y"})})), "it reads `no"));
  BOOST_TEST(has(refusal(t::model_of({t::node("", {"x"}, {"y"})})), "names no operator"));
  for (const char* bad :
       {"\xff", "a\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf4\x90\x80\x80"})
    BOOST_TEST(has(refusal(t::model_of({}, {}, {t::value(bad, t::float32, {1})}, {})), "not UTF-8"));
  const bytes good = "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  BOOST_TEST(message_of([&] { read(t::model_of({}, {}, {t::value(good, t::float32, {1})}, {})); }) == "");
  BOOST_TEST(has(unsupported(t::model_of({t::node("Re\nlu", {"x"}, {"y"})})), "does not know this operator"));
  BOOST_TEST(has(unsupported(t::model_of({t::node(bytes(100000, 'a'), {"x"}, {"y"})})), "does not know this operator"));
  BOOST_TEST(refusal(t::model_of({t::node("Relu", {bytes(100000, 'a')}, {"y"})})).size() < 4000u);
}

BOOST_AUTO_TEST_CASE(types_that_lie) {
  const auto declared = [](const bytes& output) {
    return t::model_of({t::node("Relu", {"x"}, {"y"})}, {}, {t::value("x", t::float32, {2, 3})}, {output});
  };
  BOOST_TEST(has(refusal(declared(t::value("y", t::int64, {2, 3}))), "output `y` is declared as int64, but is"));
  BOOST_TEST(has(refusal(declared(t::value("y", t::float32, {2}))), "is declared with the extents [2], but is"));
  BOOST_TEST(has(refusal(declared(t::value("y", t::float32, {2, 4}))), "is declared with the extents [2, 4], but is"));
  BOOST_TEST(message_of([&] { read(declared(t::value("y", t::float32, {2, 3}))); }) == "");
  BOOST_TEST(message_of([&] { read(declared(t::value("y", t::float32, {"M", 3}))); }) == "");
}

BOOST_AUTO_TEST_CASE(operators_that_are_called_wrongly) {
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {}, {"y"})})), "operand 0 is missing"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Identity", {}, {"y"})})), "operand 0 is missing"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Add", {"x"}, {"y"})})), "operand 1 is missing"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Col2Im", {"x"}, {"y"})})), "operand 1"));
  for (const char* op : {"Identity", "Shape", "Relu", "Split"})
    BOOST_TEST(has(refusal(t::model_of({t::node(op, {"x"}, {})})), "it has no results"));
  BOOST_TEST(
      has(unsupported(t::model_of({t::node("Relu", {"x"}, {"y", "z"})})), "its result 1, `z`, is not supported"));
  BOOST_TEST(has(refusal(t::model_of({t::node("LeakyRelu", {"x"}, {"y"}, {t::integer("alpha", 1)})})),
                 "attribute `alpha` has an unexpected type"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Concat", {"x", "x"}, {"y"})})), "attribute `axis` is missing"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Concat", {"x", "x"}, {"y"}, {t::integer("axis", 7)})})), "axis 7"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Softmax", {"x"}, {"y"}, {t::integer("axis", -1LL << 63)})})),
                 "attribute `axis` has the value -9223372036854775808"));
  BOOST_TEST(has(refusal(t::model_of({t::node("If", {"x"}, {"y"})})), "`then_branch`, a graph, is missing"));
  BOOST_TEST(
      has(unsupported(t::model_of({t::node("Cast", {"x"}, {"y"}, {t::integer("to", (1LL << 32) + 1)})})), "undefined"));
  BOOST_TEST(has(unsupported(t::model_of({t::node("Cast", {"x"}, {"y"}, {t::integer("to", 99)})})), "undefined"));
  BOOST_TEST(
      has(refusal(t::model_of({t::node("Add", {"x", "w"}, {"y"})}, {t::floats("w", {2}, {1, 2})})), "`y` (Add)"));
  BOOST_TEST(has(unsupported(t::model_of({t::node("Relu", {"x"}, {"y"}, {}, {.domain = "own"})})), "own.Relu"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Relu", {"x"}, {"y"}, {}, {.domain = "no\nne"})})), "imports no opset"));
  BOOST_TEST(has(refusal(t::model_of({t::node("Slice", {"x", "from", "to"}, {"y"})}, {},
                                     {t::value("x", t::float32, {2}), t::value("from", t::int64, {1 << 29}),
                                      t::value("to", t::int64, {1 << 29})})),
                 "it has 536870912 starts, but the rank is 1"));
  const bytes one = t::floats("one", {}, {1});
  BOOST_TEST(has(
      refusal(t::model_of({t::node("QLinearMatMul", {"x", "one", "z", "w", "one", "z", "one", "one"}, {"y"})},
                          {one, t::tensor("z", t::uint8, {}, bytes(1, '\0')), t::tensor("w", t::uint8, {3, 1}, "abc")},
                          {t::value("x", t::uint8, {2, 3})})),
      "expected an integer type"));
  // The message counts all unsupported nodes.
  BOOST_TEST(has(unsupported(t::model_of({t::node("A", {"x"}, {"z"}), t::node("B", {"z"}, {"y"})})),
                 "; unsupported nodes in all: 2, of the operators A B"));
}

BOOST_AUTO_TEST_CASE(nodes_that_are_not_supported_are_listed) {
  const folder here;
  const auto path = here.write(
      "m.onnx",
      t::model_of({t::node("Nothing", {"x"}, {"z"}, {}, {.name = "n"}),
                   t::node("If", {"x"}, {"y"}, {t::graph_attribute("then_branch", giving("Other", {"z"}).done())})}));
  const auto found = onnx::unsupported(path);
  BOOST_TEST(found.size() == 2u);
  BOOST_TEST(found[0].op == "Nothing");
  BOOST_TEST(found[0].name == "n");
  BOOST_TEST(found[0].opset == 18);
  BOOST_TEST(found[1].op == "Other");
}

// Unsupported attributes are listed with their nodes; nodes that read such a result are skipped, all others are
// checked.
BOOST_AUTO_TEST_CASE(attributes_that_are_not_supported_are_listed) {
  const folder here;
  const auto path =
      here.write("m.onnx", t::model_of({t::node("Cast", {"x"}, {"a"}, {t::integer("to", 99)}, {.name = "first"}),
                                        t::node("Cast", {"a"}, {"b"}, {t::integer("to", 98)}, {.name = "behind"}),
                                        t::node("Relu", {"x"}, {"c"}),
                                        t::node("Cast", {"c"}, {"d"}, {t::integer("to", 97)}, {.name = "second"}),
                                        t::node("Nothing", {"c"}, {"y"}, {}, {.name = "third"})}));
  const auto found = onnx::unsupported(path);
  BOOST_REQUIRE_EQUAL(found.size(), 3u);
  BOOST_TEST(found[0].name == "third");
  BOOST_TEST(found[0].why == "lamina does not know this operator");
  BOOST_TEST(found[1].name == "first");
  BOOST_TEST(found[1].op == "Cast");
  BOOST_TEST(has(found[1].why, "undefined"), found[1].why);
  BOOST_TEST(!has(found[1].why, "m.onnx"), found[1].why);
  BOOST_TEST(found[2].name == "second");
}

// Attributes that contradict the weights: windows and states.
BOOST_AUTO_TEST_CASE(attributes_that_contradict_weights) {
  const auto convolution = [](const t::numbers& kernel) {
    return t::model_of({t::node("Conv", {"x", "w"}, {"y"}, {t::integers("kernel_shape", kernel)})},
                       {t::floats("w", {1, 1, 2, 3}, std::vector<float>(6, 1))},
                       {t::value("x", t::float32, {1, 1, 5, 5})});
  };
  BOOST_TEST(has(refusal(convolution({3, 3})), "`kernel_shape` is [3, 3], but its weights are [1x1x2x3]"));
  BOOST_TEST(has(refusal(convolution({3})), "`kernel_shape` is [3], but its weights are"));
  BOOST_TEST(message_of([&] { read(convolution({2, 3})); }) == "");
  const auto recurrence = [](std::int64_t hidden) {
    return t::model_of(
        {t::node("GRU", {"x", "w", "r"}, {"y"}, {t::integer("hidden_size", hidden)})},
        {t::floats("w", {1, 6, 3}, std::vector<float>(18, 1)), t::floats("r", {1, 6, 2}, std::vector<float>(12, 1))},
        {t::value("x", t::float32, {4, 1, 3})});
  };
  BOOST_TEST(has(refusal(recurrence(3)), "`hidden_size` is 3, but its weights [1x6x2] have 2 features"));
  BOOST_TEST(message_of([&] { read(recurrence(2)); }) == "");
}

// An initializer that is also an input is a default.
BOOST_AUTO_TEST_CASE(defaults_of_inputs_are_replaced) {
  const bytes model = t::model_of({t::node("Mul", {"x", "f"}, {"y"})}, {t::floats("f", {2}, {2, 3})},
                                  {t::value("x", t::float32, {2}), t::value("f", t::float32, {2})});
  const auto result = [&](const onnx::read_options& o, const std::vector<any_tensor>& in) {
    auto net = onnx::read({reinterpret_cast<const std::byte*>(model.data()), model.size()}, "m.onnx", o);
    BOOST_TEST(net.inputs().size() == in.size());
    auto s = ir::session::owning(net.program, std::move(net.states));
    return numbers_of(s.run(view<const any_tensor>(in.data(), in.size()))[0]);
  };
  const any_tensor x = tensor_of({2}, {5, 7}), f = tensor_of({2}, {10, 100});
  BOOST_TEST(result({}, {x}) == (list{10, 21}));
  onnx::read_options number, value, shaped;
  number.numbers.emplace_back("f", 4);
  value.values.emplace_back("f", f);
  shaped.shapes.emplace_back("f", shape{2});
  BOOST_TEST(result(number, {x}) == (list{20, 28}));
  BOOST_TEST(result(value, {x}) == (list{50, 700}));
  BOOST_TEST(result(shaped, {x, f}) == (list{50, 700}));
}

BOOST_AUTO_TEST_CASE(functions_that_call_each_other) {
  const auto model = [](const std::vector<bytes>& functions) {
    return t::model{.main = {.nodes = {t::node("f0", {"x"}, {"y"}, {}, {.domain = "own"})},
                             .inputs = {t::value("x", t::float32, {2})},
                             .outputs = {t::untyped("y")}},
                    .functions = functions}
        .done();
  };
  const auto calling = [](int i, const bytes& op, int times) {
    t::function f{.name = "f" + std::to_string(i), .inputs = {"v0"}, .outputs = {"v" + std::to_string(times)}};
    for (int k = 0; k < times; ++k)
      f.nodes.push_back(t::node(op, {"v" + std::to_string(k)}, {"v" + std::to_string(k + 1)}, {},
                                {.domain = op == "Relu" ? "" : "own"}));
    return f.done();
  };
  BOOST_TEST(has(refusal(model({calling(0, "f0", 1)})), "function `f0` calls itself"));
  BOOST_TEST(has(refusal(model({calling(0, "f1", 1), calling(1, "f0", 1)})), "function `f0` calls itself"));
  std::vector<bytes> bomb, chain;
  for (int i = 0; i < 20; ++i) bomb.push_back(calling(i, "f" + std::to_string(i + 1), 20));
  bomb.push_back(calling(20, "Relu", 20));
  BOOST_TEST(has(refusal(model(bomb)), "its functions call each other too often"));
  for (int i = 0; i < 150; ++i) chain.push_back(calling(i, "f" + std::to_string(i + 1), 1));
  chain.push_back(calling(150, "Relu", 1));
  BOOST_TEST(has(refusal(model(chain)), "nested deeper than 100"));
  BOOST_TEST(has(refusal(t::model{.main = {.nodes = {t::node("f0", {"x", "x"}, {"y"}, {}, {.domain = "own"})},
                                           .inputs = {t::value("x", t::float32, {2})}},
                                  .functions = {calling(0, "Relu", 1)}}
                             .done()),
                 "function `f0` has 1 inputs and 1 outputs, but is called with 2 and 1"));
  // A constant in a function's body is read at each call.
  std::vector<bytes> large;
  for (int i = 0; i < 4; ++i) large.push_back(calling(i, "f" + std::to_string(i + 1), 20));
  large.push_back(t::function{
      .name = "f4",
      .inputs = {"a"},
      .outputs = {"b"},
      .nodes = {t::node("Constant", {}, {"c"},
                        {t::tensor_attribute("value", t::tensor("", t::float32, {1 << 15}, bytes(1 << 17, '\0')))}),
                t::node("Relu", {"a"}, {"b"})}}
                      .done());
  BOOST_TEST(has(refusal(model(large)), "many share the same bytes"));
}

// Tables that attributes describe but the file does not contain.
BOOST_AUTO_TEST_CASE(tables_that_are_too_large) {
  const auto model = [](const bytes& op, const std::vector<bytes>& attributes, std::int32_t element = t::float32) {
    return t::model{.main = {.nodes = {t::node(op, {"x"}, {"y"}, attributes, {.domain = "ai.onnx.ml"})},
                             .inputs = {t::value("x", element, {1, 1})},
                             .outputs = {t::untyped("y")}},
                    .opsets = {t::opset("", 18), t::opset("ai.onnx.ml", 5)}}
        .done();
  };
  const auto trees = [&](std::int64_t targets, const numbers& roots) {
    return std::vector<bytes>{t::tensor_attribute("nodes_splits", t::floats("", {1}, {0.5f})),
                              t::tensor_attribute("nodes_modes", t::tensor("", t::uint8, {1}, bytes(1, '\0'))),
                              t::tensor_attribute("leaf_weights", t::floats("", {2}, {3, 4})),
                              t::integers("nodes_featureids", {0}),
                              t::integers("nodes_truenodeids", {0}),
                              t::integers("nodes_trueleafs", {1}),
                              t::integers("nodes_falsenodeids", {1}),
                              t::integers("nodes_falseleafs", {1}),
                              t::integers("leaf_targetids", {0, 0}),
                              t::integers("tree_roots", roots),
                              t::integer("n_targets", targets)};
  };
  any_tensor small({dtype::int8, {1, 1}});
  BOOST_TEST(numbers_of(run(model("TreeEnsemble", trees(1, {0}), t::int8), {small})[0]) == (list{3}));
  BOOST_TEST(numbers_of(run(model("TreeEnsemble", trees(1, {0, 0})), {tensor_of({1, 1}, {1})})[0]) == (list{8}));
  BOOST_TEST(has(unsupported(model("TreeEnsemble", trees(1 << 30, {0}))), "targets for 3 nodes"));
  std::vector<bytes> many;
  for (int i = 0; i < 40; ++i)
    many.push_back(
        t::node("TreeEnsemble", {"x"}, {"y" + std::to_string(i)}, trees(1 << 20, {0}), {.domain = "ai.onnx.ml"}));
  BOOST_TEST(has(unsupported(t::model{.main = {.nodes = many, .inputs = {t::value("x", t::float32, {1, 1})}},
                                      .opsets = {t::opset("", 18), t::opset("ai.onnx.ml", 5)}}
                                 .done()),
                 "far more than the file has"));
  BOOST_TEST(has(refusal(model("SVMClassifier", {t::integers("vectors_per_class", {1LL << 40, 1LL << 40}),
                                                 t::integers("classlabels_ints", {0, 1}), t::reals("rho", {1}),
                                                 t::reals("coefficients", {1}), t::reals("support_vectors", {1})})),
                 "coefficients"));
}

// Nested graphs and functions, up to the depth limit of messages.
BOOST_AUTO_TEST_CASE(deep_nesting) {
  const auto nested = [](int depth) {
    t::graph g = giving("Relu", {"x"});
    for (int i = 0; i < depth; ++i)
      g = {.nodes = {t::node("If", {"c"}, {"r" + std::to_string(i)},
                             {t::graph_attribute("then_branch", g.done()),
                              t::graph_attribute("else_branch", giving("Relu", {"x"}).done())})},
           .outputs = {t::untyped("r" + std::to_string(i))}};
    g.initializers = {t::tensor("c", t::boolean, {}, bytes(1, '\1'))};
    g.inputs = {t::value("x", t::float32, {2})};
    return t::model{.main = g}.done();
  };
  BOOST_TEST(numbers_of(run(nested(40), {tensor_of({2}, {1, -1})})[0]) == (list{1, 0}));
  BOOST_TEST(has(refusal(nested(60)), "nested deeper than 100"));
  BOOST_TEST(has(refusal(nested(1000)), "nested deeper than 100"));
}

// Expensive constant computations are left to the run, which has a memory limit.
BOOST_AUTO_TEST_CASE(constants_that_are_too_large_to_compute) {
  const auto limited = [](const bytes& model) {
    memory::limit(std::int64_t(512) << 20);
    const auto start = std::chrono::steady_clock::now();
    const std::string said = message_of([&] { run(model); });
    memory::limit(0);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    BOOST_TEST(took.count() < 10, said);
    BOOST_TEST(said.find('\n') == said.npos);
    return said;
  };
  const auto with = [](const bytes& op, const t::names& in, const std::vector<bytes>& data) {
    return t::model_of({t::node(op, in, {"h"}), t::node("ReduceMax", {"h"}, {"y"})}, data, {});
  };
  const auto one = t::floats("one", {1}, {1});
  for (std::int64_t n : {std::int64_t(1) << 31, std::int64_t(1) << 40, std::int64_t(1) << 62}) {
    const auto extents = t::longs("n", {1}, {n});
    BOOST_TEST(limited(with("ConstantOfShape", {"n"}, {extents})) != "");
    BOOST_TEST(limited(with("Expand", {"one", "n"}, {one, extents})) != "");
    BOOST_TEST(limited(with("Tile", {"one", "n"}, {one, extents})) != "");
    BOOST_TEST(limited(with("Range", {"from", "to", "by"},
                            {t::longs("from", {}, {0}), t::longs("to", {}, {n}), t::longs("by", {}, {1})})) != "");
  }
  BOOST_TEST(limited(with("ConstantOfShape", {"n"}, {t::longs("n", {1}, {-5})})) != "");
  BOOST_TEST(limited(with("ConstantOfShape", {"n"}, {t::longs("n", {3}, {1LL << 31, 1LL << 31, 1LL << 31})})) != "");
  BOOST_TEST(limited(with("Range", {"from", "to", "by"},
                          {t::longs("from", {}, {0}), t::longs("to", {}, {5}), t::longs("by", {}, {0})})) != "");
  // In sequence: each is small, but not their sum.
  t::graph many{.initializers = {t::longs("n", {1}, {3 << 20})}};
  for (int i = 0; i < 500; ++i) many.nodes.push_back(t::node("ConstantOfShape", {"n"}, {"c" + std::to_string(i)}));
  const auto used = memory::counters().current;
  const auto net = read(t::model{.main = many}.done());
  BOOST_TEST(memory::counters().current - used < std::int64_t(600) << 20);
}

BOOST_AUTO_TEST_SUITE_END()

// ---- damage ---------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(damage)

namespace {

using clock = std::chrono::steady_clock;
struct until {
  clock::time_point end;
  bool stop_requested() const noexcept { return clock::now() >= end; }
};

// Reads a possibly damaged model; if it loads, runs it on zeros with limits on memory and time.
bool read_and_run(const bytes& model, const std::string& what) {
  const auto begin = clock::now();
  bool loaded = false;
  try {
    auto net = read(model);
    loaded = true;
    std::vector<any_tensor> inputs;
    for (auto i : net.program->inputs()) {
      tensor_type type = net.program->at(i).results[0];
      for (int a = 0; a < type.dims.rank; ++a)
        if (!type.dims[a].is_number()) type.dims[a] = 2;
      inputs.emplace_back(type);
    }
    const stop_scope limited(until{clock::now() + std::chrono::seconds(1)});
    auto s = ir::session::owning(net.program, std::move(net.states));
    s.run(view<const any_tensor>(inputs.data(), inputs.size()));
  } catch (const error& e) {
    const std::string said = e.what();
    if (!loaded && !said.starts_with("m.onnx: ")) BOOST_ERROR(what << ": " << said);
    if (said.find('\n') != said.npos) BOOST_ERROR(what << ": " << said);
  } catch (const std::exception& e) { BOOST_ERROR(what << ": " << e.what()); }
  if (clock::now() - begin > std::chrono::seconds(15)) BOOST_ERROR(what << " takes long");
  return loaded;
}

// A model with every kind of field.
bytes sample() {
  const t::function f{.name = "f",
                      .inputs = {"a"},
                      .outputs = {"b"},
                      .nodes = {t::node("LeakyRelu", {"a"}, {"b"}, {t::reference("alpha", "slope", 1)})},
                      .defaults = {t::real("slope", 0.5f)}};
  return t::model{
      .main = {.nodes = {t::node("MatMul", {"x", "w"}, {"h"}, {}, {.name = "product"}),
                         t::node("f", {"h"}, {"i"}, {}, {.domain = "own"}), t::node("Shape", {"i"}, {"s"}),
                         t::node("Gather", {"s", "zero"}, {"n"}, {t::integer("axis", 0)}),
                         t::node("Concat", {"n", "rest"}, {"to"}, {t::integer("axis", 0)}),
                         t::node("Reshape", {"i", "to"}, {"j"}),
                         t::node("If", {"c"}, {"k"},
                                 {t::graph_attribute("then_branch", giving("Neg", {"j"}).done()),
                                  t::graph_attribute("else_branch", giving("Abs", {"j"}).done())}),
                         t::node("Slice", {"k", "zero", "two"}, {"l"}), t::node("ConstantOfShape", {"two"}, {"m"}),
                         t::node("Range", {"from", "till", "step"}, {"q"}), t::node("Expand", {"q", "two"}, {"r"}),
                         t::node("ReduceSum", {"l"}, {"o"}, {t::integer("keepdims", 0)}),
                         t::node("Transpose", {"w"}, {"wt"}, {t::integers("perm", {1, 0})}),
                         t::node("Softmax", {"wt"}, {"y"}, {t::integer("axis", -1)})},
               .inputs = {t::value("x", t::float32, {"N", 3}), t::value("c", t::boolean, {})},
               .outputs = {t::value("y", t::float32, {4, 3}), t::untyped("o"), t::untyped("m"), t::untyped("r")},
               .initializers = {t::floats("w", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                                t::longs("zero", {1}, {0}), t::longs("rest", {2}, {2, -1}), t::longs("two", {1}, {2}),
                                t::tensor("from", t::int64, {}, t::raw<std::int64_t>({0})), t::longs("till", {}, {2}),
                                t::longs("step", {}, {1})}},
      .functions = {f.done()},
      .metadata = {t::entry("a", "b")}}
      .done();
}

struct limit_of_memory {
  limit_of_memory() { memory::limit(memory::counters().current + (std::int64_t(512) << 20)); }
  ~limit_of_memory() { memory::limit(0); }
  limit_of_memory(const limit_of_memory&) = delete;
  limit_of_memory& operator=(const limit_of_memory&) = delete;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_that_is_cut_at_every_byte) {
  const limit_of_memory limited;
  const bytes whole = sample();
  BOOST_TEST(read_and_run(whole, "the whole"));
  for (std::size_t n = 0; n < whole.size(); ++n)
    read_and_run(whole.substr(0, n), "the first " + std::to_string(n) + " bytes");
}

BOOST_AUTO_TEST_CASE(a_model_of_which_any_byte_is_another) {
  const limit_of_memory limited;
  const bytes whole = sample();
  int loaded = 0, count = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int how = 0; how < 4; ++how) {
      bytes other = whole;
      const auto is = static_cast<unsigned char>(whole[i]);
      other[i] = static_cast<char>(how == 0 ? 0 : how == 1 ? 255 : how == 2 ? is + 1 : is ^ 128);
      loaded += read_and_run(other, "byte " + std::to_string(i) + " of kind " + std::to_string(how));
      ++count;
    }
  BOOST_TEST_MESSAGE(loaded << " of " << count << " load");
  BOOST_TEST(loaded > 0);
  BOOST_TEST(loaded < count);
}

BOOST_AUTO_TEST_SUITE_END()
