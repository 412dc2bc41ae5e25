// Storage-only element types: operations move them and cast them, and none computes in them.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

module lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

constexpr int first_stored = static_cast<int>(dtype::uint16);

// Elements with arbitrary bits that the type allows.
any_tensor made_up(dtype element, const shape& s, std::uint32_t seed) {
  any_tensor t(tensor_type{element, s});
  with_type(element, [&]<class T>() {
    for (std::int64_t i = 0; i < s.size(); ++i) {
      std::uint64_t bits = 0;
      for (int word = 0; word < 3; ++word) {
        seed = seed * 1664525u + 1013904223u;
        bits = bits << 24 | seed >> 8;
      }
      T x{};
      if constexpr (std::is_same_v<T, bool>) x = bits & 1;
      else if constexpr (requires { x.v; }) x = T(static_cast<int>(bits & 15));
      else if constexpr (std::is_same_v<T, float4_e2m1>) x.bits = static_cast<std::uint8_t>(bits & 15);
      else std::memcpy(&x, &bits, sizeof x);
      std::memcpy(t.mutable_data() + static_cast<std::size_t>(i) * sizeof x, &x, sizeof x);
    }
  });
  return t;
}
any_tensor seen_as(const any_tensor& t, dtype element) { return any_tensor(t.memory(), {element, t.shape()}); }
bool same_bytes(const any_tensor& a, const any_tensor& b) {
  return a.shape() == b.shape() && a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

// Plans the program read back from JSON, and runs it.
std::vector<any_tensor> run(const program& p, const std::vector<any_tensor>& in) {
  const auto again = read_program(p.to_json());
  BOOST_TEST((again->id() == p.id()));
  session s(again);
  return s.run(in);
}
any_tensor of_one(const any_tensor& in, const std::function<value(const value&)>& f) {
  program p;
  p.output("y", f(p.input("x", in.type())));
  return run(p, {in})[0];
}
any_tensor cast_to(const any_tensor& in, const cast_attributes& a) {
  return of_one(in, [&](const value& x) { return value(apply<op::cast>(a, x)); });
}

// Every operation that moves elements without reading them.
std::vector<any_tensor> moved(const any_tensor& x, const any_tensor& y) {
  program p;
  const value a = p.input("a", x.type()), b = p.input("b", y.type()), at = p.input("at", {dtype::int64, {2}}),
              along = p.input("along", {dtype::int64, {3, 2}}), where_a = p.input("where", {dtype::boolean, {3, 4}}),
              open = p.input("open", {x.element(), {dyn, 4}}), held = p.constant(y);
  const std::vector<value> results{
      reshape(a, {2, 6}),
      flatten<0>(a),
      permute<1, 0>(a),
      slice(a, {.start = 1, .stop = 4, .axis = 1, .step = 2}),
      apply_all<op::concat>({1}, std::vector<value>{a, b, held}),
      gather(a, at),
      take_along_axis(a, along, 1),
      where(where_a, a, b),
      where(where_a, a, held),
      tile(a, {2, 3}),
      repeat(a, 3, 1),
      broadcast_like(slice(a, {.start = 0, .stop = 1}), b),
      select(a, 0, 1),
      std::get<1>(split<2>(a, axis_attributes{1})),
      stop_gradient(a),
      slice(held, {.start = 1, .stop = 2}),
      apply<op::put_rows>({}, a, at, slice(b, {.start = 0, .stop = 2})),
      masked_select(a, where_a),
      reshape(open, {dyn, 2}),
      a,
  };
  int n = 0;
  for (const auto& v : results) p.output("y" + std::to_string(n++), v);
  const any_tensor positions = vector<std::int64_t>{2, 0};
  const any_tensor columns = matrix<std::int64_t>{{0, 3}, {1, 1}, {2, -1}};
  const any_tensor chosen = matrix<bool>{{1, 0, 0, 1}, {0, 0, 1, 1}, {1, 1, 0, 0}};
  return run(p, {x, y, positions, columns, chosen, x});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stored_types)

BOOST_AUTO_TEST_CASE(they_move_as_their_bytes_do) {
  for (int i = 2; i < number_type_count; ++i) {
    const auto element = static_cast<dtype>(i);
    const std::size_t size = size_of(element);
    const dtype like = size == 1 ? dtype::uint8 : size == 2 ? dtype::int16 : size == 4 ? dtype::int32 : dtype::int64;
    const any_tensor x = made_up(element, {3, 4}, 1), y = made_up(element, {3, 4}, 2);
    const auto got = moved(x, y), want = moved(seen_as(x, like), seen_as(y, like));
    BOOST_TEST_REQUIRE(got.size() == want.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      BOOST_TEST((got[k].element() == element));
      BOOST_CHECK_MESSAGE(same_bytes(got[k], want[k]), name_of(element) << ", result " << k);
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_fill_and_pad_them) {
  for (int i = first_stored; i < number_type_count; ++i) {
    const auto element = static_cast<dtype>(i);
    BOOST_TEST_CONTEXT(name_of(element)) {
      const any_tensor x = made_up(element, {2, 3}, 3), one = cast_to(vector<float>{1}, {element});
      const any_tensor padded = of_one(x, [](const value& v) {
        return pad(pad(v, {.axis = 1, .before = 1, .after = 2, .value = 1}), {.before = 1, .value = 1});
      });
      BOOST_TEST((padded.shape() == shape{3, 6}));
      const std::size_t size = size_of(element);
      for (std::size_t r = 0; r < 3; ++r)
        for (std::size_t c = 0; c < 6; ++c) {
          const bool inside = r > 0 && c > 0 && c < 4;
          const std::byte* want = inside ? x.data() + ((r - 1) * 3 + c - 1) * size : one.data();
          BOOST_TEST(std::memcmp(padded.data() + (r * 6 + c) * size, want, size) == 0);
        }
      program p;
      p.output("full", lamina::full(p.constant(vector<std::int64_t>{2, 2}), p.number(1.0, element)));
      p.output("hot", to_one_hot(p.constant(vector<std::int64_t>{1, 0}), 2, element));
      const auto made = run(p, {});
      for (std::size_t k = 0; k < 4; ++k) BOOST_TEST(std::memcmp(made[0].data() + k * size, one.data(), size) == 0);
      BOOST_TEST(std::memcmp(made[1].data() + size, one.data(), size) == 0);
      any_tensor zeros(tensor_type{element, {1}});
      BOOST_TEST(std::memcmp(made[1].data(), zeros.data(), size) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_pair_of_types_converts) {
  for (int i = 0; i < number_type_count; ++i)
    for (int k = 0; k < number_type_count; ++k) {
      const auto from = static_cast<dtype>(i), to = static_cast<dtype>(k);
      const any_tensor in = made_up(from, {7, 41}, static_cast<std::uint32_t>(i + 1));
      const any_tensor got = cast_to(in, {to});
      BOOST_TEST((got.type() == tensor_type{to, {7, 41}}));
      // Numbers that both types can represent are unchanged.
      const any_tensor small = cast_to(vector<float>{1}, {from});
      if (from == dtype::int2 && to != from) continue;
      BOOST_CHECK_MESSAGE(same_bytes(cast_to(small, {to}), cast_to(vector<float>{1}, {to})),
                          name_of(from) << " to " << name_of(to));
    }
}

BOOST_AUTO_TEST_CASE(what_the_c_types_say_is_what_casts_give) {
  const any_tensor x = made_up(dtype::float32, {4096}, 9);
  for (int i = static_cast<int>(dtype::float8_e4m3fn); i <= static_cast<int>(dtype::float4_e2m1); ++i)
    with_type(static_cast<dtype>(i), [&]<class T>() {
      if constexpr (requires(T t) { t.bits; }) {
        const any_tensor narrow = cast_to(x, {dtype_of<T>}), wide = cast_to(narrow, {dtype::float32});
        const auto numbers = x.elements<float>();
        for (std::size_t n = 0; n < numbers.size(); ++n) {
          const T want(numbers[n]);
          const float back = want;
          BOOST_REQUIRE(narrow.elements<T>()[n].bits == want.bits);
          BOOST_REQUIRE(std::isnan(back) ? std::isnan(wide.elements<float>()[n]) : wide.elements<float>()[n] == back);
        }
      }
    });
}

BOOST_AUTO_TEST_CASE(what_is_beyond_them_saturates_or_not) {
  const float inf = std::numeric_limits<float>::infinity();
  const any_tensor x = vector<float>{1e6f, -1e6f, inf, -inf};
  const auto numbers = [&](const cast_attributes& a) { return cast_to(cast_to(x, a), {dtype::float32}).print(); };
  BOOST_TEST(numbers({dtype::float8_e4m3fn}) == "[ 448. -448.  448. -448.]");
  BOOST_TEST(numbers({dtype::float8_e4m3fn, false}) == "[nan nan nan nan]");
  BOOST_TEST(numbers({dtype::float8_e4m3fnuz}) == "[ 240. -240.  240. -240.]");
  BOOST_TEST(numbers({dtype::float8_e4m3fnuz, false}) == "[nan nan nan nan]");
  BOOST_TEST(numbers({dtype::float8_e5m2}) == "[ 57344. -57344.  57344. -57344.]");
  BOOST_TEST(numbers({dtype::float8_e5m2, false}) == "[ inf -inf  inf -inf]");
  BOOST_TEST(numbers({dtype::float4_e2m1}) == "[ 6. -6.  6. -6.]");
  BOOST_TEST(cast_to(cast_to(vector<float>{0.124f, 1.1f, 3.f}, {dtype::float8_e8m0fnu}), {dtype::float32}).print() ==
             "[0.125 2.    4.   ]");
  BOOST_TEST(cast_to(cast_to(vector<float>{0.124f, 1.1f, 3.f}, {dtype::float8_e8m0fnu, true, power_rounding::down}),
                     {dtype::float32})
                 .print() == "[0.0625 1.     2.    ]");
  BOOST_TEST(cast_to(vector<float>{-9, 7.9f, 8, 15, -1.5f}, {dtype::int4}).print() == "[ 7  7 -8 -1 -1]");
  BOOST_TEST(evaluate(cast<cast_attributes{dtype::float8_e5m2, false}>(vector<float>{1e6f}))(0).bits == 0x7c);
  BOOST_TEST(evaluate(cast<float8_e5m2>(vector<float>{1e6f}))(0).bits == 0x7b);
  program p;
  BOOST_TEST(message_of([&] {
               (void)value(apply<op::cast>({dtype::float32, true, static_cast<power_rounding>(3)},
                                           p.input("x", {dtype::float32, {}})));
             }).find("round_mode is 3; expected") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(whole_numbers_of_64_bits_stay_exact) {
  constexpr std::uint64_t max = std::numeric_limits<std::uint64_t>::max(), odd = (std::uint64_t(1) << 63) + 1025;
  const vector<std::uint64_t> x{max, odd, 5};
  const auto wide = evaluate(cast<double>(x));
  BOOST_TEST(wide(0) == 0x1p64);
  BOOST_TEST(wide(1) == static_cast<double>(odd));
  BOOST_TEST(evaluate(cast<float>(x))(1) == static_cast<float>(odd));
  const auto back = evaluate(cast<std::uint64_t>(vector<double>{0x1p63, 0x1p64, -1, 1.9}));
  BOOST_TEST(back(0) == std::uint64_t(1) << 63);
  BOOST_TEST(back(1) == max);
  BOOST_TEST(back(2) == 0u);
  BOOST_TEST(back(3) == 1u);
  BOOST_TEST(evaluate(cast<std::int64_t>(x))(0) == -1);
  BOOST_TEST(evaluate(cast<std::uint64_t>(vector<std::int8_t>{-1}))(0) == max);
  BOOST_TEST(evaluate(cast<std::uint16_t>(vector<std::int32_t>{65537, -1}))(0) == 1);
  program p;  // and in JSON
  p.output("y", p.constant(x));
  BOOST_TEST(run(p, {})[0].elements<std::uint64_t>()[1] == odd);
}

BOOST_AUTO_TEST_CASE(bits_become_another_type) {
  BOOST_TEST(evaluate(bit_cast<std::int32_t>(vector<float>{1, -0.f}))(0) == 0x3f800000);
  BOOST_TEST(evaluate(bit_cast<float>(vector<std::uint32_t>{0x40000000}))(0) == 2);
  BOOST_TEST(evaluate(bit_cast<std::uint64_t>(vector<double>{2}))(0) == 0x4000000000000000u);
  BOOST_TEST(evaluate(bit_cast<std::uint8_t>(vector<float8_e5m2>{1}))(0) == 0x3c);
  BOOST_TEST(evaluate(bit_cast<std::uint8_t>(vector<bool>{true}))(0) == 1);
  for (int i = 0; i < number_type_count; ++i)
    for (int k = 0; k < number_type_count; ++k) {
      const auto from = static_cast<dtype>(i), to = static_cast<dtype>(k);
      program p;
      const value x = p.input("x", {from, {3, 50}});
      const auto message = message_of([&] { p.output("y", value(apply<op::bit_cast>({to}, x))); });
      const auto bits = [](dtype t) {
        return t == dtype::int2 || t == dtype::uint2                              ? 2u
               : t == dtype::int4 || t == dtype::uint4 || t == dtype::float4_e2m1 ? 4u
                                                                                  : 8 * size_of(t);
      };
      const bool taken = bits(from) == bits(to) && (to != dtype::boolean || from == dtype::boolean);
      BOOST_TEST(message.empty() == taken, name_of(from) << " to " << name_of(to) << ": " << message);
      if (!taken) continue;
      const any_tensor in = made_up(from, {3, 50}, 5), out = run(p, {in})[0];
      const any_tensor back = from == dtype::boolean
                                  ? in
                                  : of_one(out, [&](const value& v) { return value(apply<op::bit_cast>({from}, v)); });
      BOOST_TEST(same_bytes(in, back));
      const std::size_t n = bits(to) < 8 ? 150 : 0;
      for (std::size_t b = 0; b < n; ++b)
        BOOST_REQUIRE(((static_cast<unsigned>(in.data()[b]) ^ static_cast<unsigned>(out.data()[b])) &
                       ((1u << bits(to)) - 1)) == 0);
      if (bits(to) >= 8) BOOST_TEST(same_bytes(in, out));
    }
  static_assert(std::same_as<decltype(bit_cast<std::int32_t>(vector<float>{1}))::element_type, std::int32_t>);
}

BOOST_AUTO_TEST_CASE(nothing_computes_in_them) {
  for (int i = first_stored; i < number_type_count; ++i) {
    const auto element = static_cast<dtype>(i);
    program p;
    const value x = p.input("x", {element, {2, 2}});
    const std::function<value()> all[] = {[&] { return x + x; },         [&] { return x == x; },
                                          [&] { return x < x; },         [&] { return -x; },
                                          [&] { return matmul(x, x); },  [&] { return value(reduce_sum(x)); },
                                          [&] { return argmax(x, {}); }, [&] { return exp(x); }};
    for (const auto& f : all)
      BOOST_CHECK_EXCEPTION(f(), type_error, [&](const type_error& e) {
        return std::string_view(e.what()).find("cast first, as in cast<float>(x)") != std::string_view::npos;
      });
  }
}

BOOST_AUTO_TEST_CASE(no_gradient_flows_through_them) {
  program p;
  const value x = p.input("x", {dtype::float32, {2}});
  const value y = reduce_sum(cast<float>(cast<float8_e5m2>(x)) + x);
  p.output("g", gradients(y, std::vector<value>{x})[0]);
  BOOST_TEST(run(p, {vector<float>{1, 2}})[0].print() == "[1. 1.]");
}

BOOST_AUTO_TEST_CASE(strings_are_in_no_plan) {
  const any_tensor words = any_tensor::of_strings({2}, std::vector<std::string>{"a", "b"});
  const auto says = [](std::string_view what) {
    return
        [what](const unsupported_error& e) { return std::string_view(e.what()).find(what) != std::string_view::npos; };
  };
  const auto shared = std::make_shared<program>();
  program& p = *shared;
  const value x = p.input("words", words.type());
  p.output("y", reshape(x, {2, 1}));
  BOOST_CHECK_EXCEPTION(session(shared).run(std::vector{words}), unsupported_error,
                        says("input `words` is string[2]; strings cannot be computed with"));
  const auto with_constant = std::make_shared<program>();
  program& held = *with_constant;
  held.output("y", held.constant(words));
  BOOST_CHECK_EXCEPTION(session(with_constant).run(std::vector<any_tensor>{}), unsupported_error,
                        says("a constant is string[2]"));
  BOOST_CHECK_THROW(held.to_json(), unsupported_error);
  program stated;
  stated.output("y", stated.state("s", words.type()));
  BOOST_CHECK_EXCEPTION(make_plan(stated, std::vector<shape>{}, target_isa()), unsupported_error,
                        says("state `s` is string[2]"));
  BOOST_CHECK_EXCEPTION(make_plan(*read_program(p.to_json()), std::vector<shape>{{2}}, target_isa()), unsupported_error,
                        says("input `words`"));
  for (const dtype to : {dtype::float32, dtype::string}) {
    program q;
    const value from = q.input("x", {to == dtype::string ? dtype::float32 : dtype::string, {2}});
    BOOST_CHECK_THROW((void)value(apply<op::cast>({to}, from)), type_error);
    BOOST_CHECK_THROW((void)value(apply<op::bit_cast>({to}, from)), type_error);
    BOOST_CHECK_THROW((void)(q.input("s", words.type()) == q.input("t", words.type())), type_error);
    BOOST_CHECK_THROW((void)pad(q.input("s", words.type()), {.before = 1}), unsupported_error);
    BOOST_CHECK_THROW((void)q.number(1.0, dtype::string), unsupported_error);
  }
  BOOST_CHECK_THROW(read_program(R"({"format": "lamina program", "version": 1, "programs": []})"), error);
}

BOOST_AUTO_TEST_CASE(bytes_of_fewer_bits_are_checked_when_programs_are_read) {
  program p;
  p.output("y", p.constant(vector<int4>{int4(3), int4(-8)}));
  std::string json = p.to_json();
  const auto at = json.find("[3, -8]");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  const auto with = [&](std::string_view data) { return std::string(json).replace(at, 7, data); };
  BOOST_TEST(run(*read_program(with("\"03f8\"")), {})[0].print() == "[ 3 -8]");
  BOOST_CHECK_THROW(read_program(with("[3, 8]")), file_error);
  BOOST_CHECK_THROW(read_program(with("[3, 0.5]")), file_error);
  BOOST_CHECK_THROW(read_program(with("\"0308\"")), file_error);
}

BOOST_AUTO_TEST_SUITE_END()
