// Compiled register chains give the bits of step-by-step runs: every operation, random chains, all operand kinds.
#include "kernel_test.h"

#include <algorithm>
#include <optional>
#include <sstream>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const elementwise_functions& functions() { return elementwise_of(kernel_test::tested()); }
template <class T> constexpr element element_of = sizeof(T) == 4 ? element::f32 : element::f64;

chain_step step(element type, map_op op, std::initializer_list<int> in, int out) {
  chain_step s{map_of(kernel_test::tested(), op, type), {-1, -1, -1}, static_cast<std::int8_t>(out), op, type};
  std::copy(in.begin(), in.end(), s.in);
  return s;
}

/// A chain that owns the memory of its operands.
template <class T> struct chain {
  chain_args args{};
  std::vector<buffer<T>> memory;

  /// Adds an operand: rows of `row` elements with `gap` elements between them, or one element for all.
  void operand(long rows, long row, long gap, bool moves, std::size_t offset, std::mt19937& g) {
    auto& m = memory.emplace_back(static_cast<std::size_t>(moves ? rows * (row + gap) : 1), offset);
    kernel_test::fill_uniform(m, g, -3, 3);
    for (std::size_t i = 7; i < m.size(); i += 31) m[i] = i % 2 == 0 ? -T(0) : std::numeric_limits<T>::infinity();
    for (std::size_t i = 11; i < m.size(); i += 97) m[i] = std::numeric_limits<T>::quiet_NaN();
    const long pitch = (row + gap) * static_cast<long>(sizeof(T));
    args.operand[args.operand_count++] = {nullptr, {0, 0, moves ? pitch : 0}, sizeof(T), moves ? 1 : 0};
  }
  /// Returns the memory after a run; operand o uses the memory of operand `same_as[o]`.
  std::vector<buffer<T>> run(bool woven, unsigned streamed, const int (&same_as)[chain_operands]) const {
    chain_args a = args;
    std::vector<buffer<T>> m = memory;
    for (int o = 0; o < a.operand_count; ++o) {
      const auto& from = memory[static_cast<std::size_t>(o)];
      const auto offset = reinterpret_cast<std::uintptr_t>(from.data()) % 64 / sizeof(T);
      m[static_cast<std::size_t>(o)] = buffer<T>(from.size(), offset);
      std::copy(from.data(), from.data() + from.size(), m[static_cast<std::size_t>(o)].data());
    }
    for (int o = 0; o < a.operand_count; ++o) a.operand[o].data = m[static_cast<std::size_t>(same_as[o])].data();
    a.streamed = streamed;
    if (woven) {
      kernel_test::compile(a);
      BOOST_REQUIRE(a.register_count > 0);
    }
    alignas(64) static char scratch[chain_scratch_bytes];
    functions().chain(&a, scratch);
    return m;
  }
};

template <class T> bool same(const buffer<T>& x, const buffer<T>& y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof(T)) != 0 && !(x[i] != x[i] && y[i] != y[i])) return false;
  return x.guards_intact() && y.guards_intact();
}

constexpr int itself[chain_operands] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::string text_of(const chain_args& a) {
  std::ostringstream out;
  for (int k = 0; k < a.step_count; ++k) {
    const auto& s = a.step[k];
    out << static_cast<int>(s.out) << " = op" << static_cast<int>(s.op) << '(' << static_cast<int>(s.in[0]) << ' '
        << static_cast<int>(s.in[1]) << ' ' << static_cast<int>(s.in[2]) << "); ";
  }
  return out.str();
}

std::vector<map_op> supported(element type, int form) {
  std::vector<map_op> ops;
  for (int i = 0; i < map_op_count; ++i) {
    const map_functions& m = map_of(kernel_test::tested(), static_cast<map_op>(i));
    const bool is_binary = m.op >= map_op::add;
    if (m.registers[static_cast<int>(type)] && is_binary == (form == 1)) ops.push_back(m.op);
  }
  return ops;
}

template <class T> void every_operation() {
  constexpr element type = element_of<T>;
  const std::vector<map_op> unary = supported(type, 0), binary = supported(type, 1);
  BOOST_TEST(unary.size() >= 10);
  BOOST_TEST(binary.size() == 7);
  std::mt19937 g(3);
  for (const bool scalar : {false, true})
    for (const int form : {0, 1, 2, 3})
      for (const map_op op : form == 0 ? unary : form == 3 ? std::vector{map_op::clamp} : binary) {
        chain<T> c;
        c.args.extent[0] = c.args.extent[1] = c.args.extent[2] = 1, c.args.extent[3] = 1001;
        for (int o = 0; o < 3; ++o) c.operand(1, 1001, 0, o == 0 || !scalar, static_cast<std::size_t>(o), g);
        c.operand(1, 1001, 0, true, 3, g);
        // the first step leaves an input in a register; the second reads it as its left or its right operand
        c.args.step[0] = step(type, map_op::abs, {0}, 16);
        c.args.step[1] = form == 0   ? step(type, op, {16}, 3)
                         : form == 1 ? step(type, op, {16, 1}, 3)
                         : form == 2 ? step(type, op, {1, 16}, 3)
                                     : step(type, op, {16, 1, 2}, 3);
        c.args.step_count = 2;
        const auto one = c.run(false, 0, itself), other = c.run(true, 0, itself);
        if (!same(one[3], other[3])) BOOST_ERROR("operation " << static_cast<int>(op) << " form " << form);
      }
}

/// A random chain of operations that register chains support; random later steps read each result.
template <class T> void random_chain(unsigned seed) {
  constexpr element type = element_of<T>;
  std::mt19937 g(seed);
  const auto below = [&g](long n) { return static_cast<long>(g() % static_cast<unsigned long>(n)); };
  static const std::vector<map_op> unary = supported(type, 0), binary = supported(type, 1);
  constexpr map_op simple[] = {map_op::add, map_op::subtract, map_op::multiply};

  chain<T> c;
  const long rows = below(3) == 0 ? 1 + below(40) : 1,
             row = rows > 1 && below(2) == 0 ? 1 + below(95) : 1 + below(1700);
  const long gap = rows > 1 && below(2) == 0 ? below(5) : 0;
  c.args.extent[0] = c.args.extent[1] = 1, c.args.extent[2] = rows, c.args.extent[3] = row;
  const int inputs = 1 + static_cast<int>(below(4)), results = 1 + static_cast<int>(below(3));
  for (int o = 0; o < inputs; ++o) c.operand(rows, row, gap, below(4) != 0, static_cast<std::size_t>(below(4)), g);
  const bool aligned = below(2) == 0;
  for (int o = 0; o < results; ++o)
    c.operand(rows, row, gap, true, aligned ? 0 : static_cast<std::size_t>(below(4)), g);

  const int steps = results + static_cast<int>(below(9));
  std::vector<int> readable;
  for (int o = 0; o < inputs; ++o) readable.push_back(o);
  std::vector<int> read_inside;
  const auto pick = [&] {
    // often the latest result
    const int slot =
        below(2) == 0 ? readable.back() : readable[static_cast<std::size_t>(below(static_cast<long>(readable.size())))];
    read_inside.push_back(slot);
    return slot;
  };
  for (int k = 0; k < steps; ++k) {
    const int left = steps - k;
    const int done = static_cast<int>(
        std::count_if(readable.begin(), readable.end(), [&](int s) { return s >= inputs && s < chain_operands; }));
    const bool result = left <= results - done || (left > 1 && done + 1 < results && below(4) == 0);
    const int temporary = chain_operands + static_cast<int>(below(chain_temporaries));
    const int out = result ? inputs + done : temporary;
    const long kind = below(10);
    const int x = pick();
    if (kind < 2)
      c.args.step[k] = step(type, unary[static_cast<std::size_t>(below(static_cast<long>(unary.size())))], {x}, out);
    else if (kind < 8) c.args.step[k] = step(type, simple[below(3)], {x, pick()}, out);
    else if (kind < 9)
      c.args.step[k] =
          step(type, binary[static_cast<std::size_t>(below(static_cast<long>(binary.size())))], {x, pick()}, out);
    else
      c.args.step[k] =
          below(2) == 0 ? step(type, map_op::copy, {x}, out) : step(type, map_op::clamp, {x, pick(), pick()}, out);
    std::erase(readable, out);
    readable.push_back(out);
  }
  c.args.step_count = steps;

  // A result may overwrite an input that no later step reads, as the planner allows.
  int same_as[chain_operands];
  std::copy(itself, itself + chain_operands, same_as);
  const int last = inputs + results - 1;
  const int over = static_cast<int>(below(inputs)), result = inputs + static_cast<int>(below(results));
  const auto reads = [over](const chain_step& s) { return std::find(s.in, s.in + 3, over) != s.in + 3; };
  const chain_step* const end = c.args.step + steps;
  const chain_step* const writer =
      std::find_if(c.args.step + 0, c.args.step + steps, [&](const chain_step& s) { return s.out == result; });
  if (below(3) != 0 && c.args.operand[over].inner != 0 && std::none_of(writer + 1, end, reads)) same_as[result] = over;
  unsigned streamed = 0;
  for (int o = inputs; o <= last; ++o)
    if (std::find(read_inside.begin(), read_inside.end(), o) == read_inside.end() && below(2) == 0) streamed |= 1u << o;

  const auto one = c.run(false, 0, same_as), other = c.run(true, streamed, same_as);
  for (int o = 0; o <= last; ++o)
    if (!same(one[static_cast<std::size_t>(o)], other[static_cast<std::size_t>(o)]))
      BOOST_ERROR("seed " << seed << " operand " << o << " rows " << rows << " of " << row << ": " << text_of(c.args));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(register_chain)

BOOST_AUTO_TEST_CASE(operations) { every_operation<float>(), every_operation<double>(); }

BOOST_AUTO_TEST_CASE(random_chains) {
  for (unsigned seed = 0; seed < 6000; ++seed) random_chain<float>(seed), random_chain<double>(seed);
}

BOOST_AUTO_TEST_CASE(forms) {
  // a formula compiles to one step per operation, minus those fused into their reader, plus the store
  const auto woven = [](std::initializer_list<chain_step> steps, int results = 1) {
    chain_args a{};
    a.operand_count = 3 + results;
    for (int o = 0; o < a.operand_count; ++o) a.operand[o] = {nullptr, {0, 0, 0}, 4, 1};
    for (const auto& s : steps) a.step[a.step_count++] = s;
    kernel_test::compile(a);
    return a;
  };
  const auto f = [](map_op op, std::initializer_list<int> in, int out) { return step(element::f32, op, in, out); };
  using op = map_op;
  BOOST_TEST(woven({f(op::multiply, {0, 1}, 16), f(op::add, {16, 2}, 16), f(op::relu, {16}, 3)}).register_count == 4);
  const auto product = woven(
      {f(op::add, {0, 1}, 16), f(op::subtract, {0, 1}, 17), f(op::multiply, {16, 17}, 16), f(op::add, {16, 2}, 3)});
  BOOST_TEST(product.register_count == 4);
  BOOST_TEST(static_cast<int>(product.register_chain[1].form) == static_cast<int>(chain_form::onto));
  const auto squares = woven({f(op::square, {0}, 16), f(op::square, {1}, 17), f(op::add, {16, 17}, 3)});
  BOOST_TEST(squares.register_count == 3);
  // a value that is read again later is stored once
  const auto twice = woven({f(op::exp, {0}, 16), f(op::negate, {16}, 17), f(op::multiply, {16, 17}, 3)});
  BOOST_TEST(std::count_if(twice.register_chain, twice.register_chain + twice.register_count,
                           [](const register_step& s) { return s.form == chain_form::store; }) == 2);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_one) {
  chain_args a{};
  a.operand_count = 2;
  for (int o = 0; o < 2; ++o) a.operand[o] = {nullptr, {0, 0, 0}, 4, 1};
  const auto woven = [&a](std::initializer_list<chain_step> steps) {
    a.step_count = 0;
    for (const auto& s : steps) a.step[a.step_count++] = s;
    kernel_test::compile(a);
    return a.register_count;
  };
  BOOST_TEST(woven({step(element::f32, map_op::negate, {0}, 1)}) == 3);
  BOOST_TEST(woven({step(element::f32, map_op::sin, {0}, 1)}) == 0);
  BOOST_TEST(woven({step(element::i32, map_op::negate, {0}, 1)}) == 0);
  BOOST_TEST(woven({step(element::f32, map_op::negate, {0}, 16)}) == 0);  // no result
  chain_step cast = step(element::f32, map_op::copy, {0}, 1);
  cast.run =
      (*map_cast_of(kernel_test::tested()).casts)[static_cast<int>(element::i32)][static_cast<int>(element::f32)];
  BOOST_TEST(woven({cast}) == 0);
  a.operand[0].size = 8;
  BOOST_TEST(woven({step(element::f32, map_op::negate, {0}, 1)}) == 0);
}

// Images in channel blocks whose results are stored in bfloat16, in pairs of blocks: those of the chain, rounded.
BOOST_AUTO_TEST_CASE(results_in_bfloat) {
  const auto& products = bfloat_of(kernel_test::tested()).products[bfloat_form_of_amx];
  if (bfloat_of(kernel_test::tested()).forms() <= bfloat_form_of_amx) return;
  constexpr long lanes = 16;
  std::mt19937 g(7);
  const auto random_to = [&](long least, long most) { return std::uniform_int_distribution<long>(least, most)(g); };
  for (int i = 0; i < 80; ++i) {
    const long images = random_to(1, 3), blocks = random_to(1, 5),
               pixels = i % 8 ? random_to(1, 60) : random_to(250, 700), row = pixels * lanes, pairs = (blocks + 1) / 2,
               size = images * blocks * row;
    buffer<float> x(static_cast<std::size_t>(size)), factor(static_cast<std::size_t>(images * blocks * lanes)),
        shift(1), out(static_cast<std::size_t>(size));
    kernel_test::fill_uniform(x, g, -3, 3), kernel_test::fill_uniform(factor, g, -3, 3);
    shift[0] = .25f;
    for (std::size_t k = 7; k < x.size(); k += 31) x[k] = k % 2 ? std::numeric_limits<float>::infinity() : -0.f;
    // x factor + shift, with one factor for each channel of an image
    chain_args a{};
    a.extent[0] = 1, a.extent[1] = images, a.extent[2] = blocks, a.extent[3] = row;
    a.operand_count = 4;
    a.operand[0] = {x.data(), {0, blocks * row * 4, row * 4}, 4, 1};
    a.operand[1] = {factor.data(), {0, blocks * lanes * 4, lanes * 4}, 4, -static_cast<int>(lanes)};
    a.operand[2] = {shift.data(), {0, 0, 0}, 4, 0};
    a.operand[3] = {out.data(), {0, blocks * row * 4, row * 4}, 4, 1};
    a.step[a.step_count++] = step(element::f32, map_op::multiply, {0, 1}, 16);
    a.step[a.step_count++] = step(element::f32, map_op::add, {16, 2}, 3);
    if (i % 2) kernel_test::compile(a);
    alignas(64) static char scratch[chain_rounded_scratch_bytes];
    functions().chain(&a, scratch);
    buffer<std::uint16_t> rounded(static_cast<std::size_t>(images * pairs * row * 2)), expected(rounded.size());
    for (auto& v : rounded) v = 0x4242;
    for (long k = 0; k < images * pairs * row * 2; ++k) {
      const long lane = k % (2 * lanes), block = k / (row * 2) % pairs * 2 + lane / lanes;
      const float v = block < blocks
                          ? out[static_cast<std::size_t>(
                                ((k / (pairs * row * 2) * blocks + block) * pixels + k / (2 * lanes) % pixels) * lanes +
                                lane % lanes)]
                          : 0;
      expected[static_cast<std::size_t>(k)] =
          static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(kernel_test::rounded_to_bfloat(v)) >> 16);
    }
    chain_rounded_args r{};
    r.chain = a, r.chain_run = functions().chain;
    r.blocks = blocks, r.operand = 3;
    r.chain.operand[3].data = nullptr;
    const long cut = images == 1 ? 2 * random_to(0, pairs - 1) : 0;  // in two calls
    for (const long first : {0L, cut}) {
      r.first_block = first;
      r.chain.extent[2] = first == 0 && cut > 0 ? cut : blocks - first;
      r.chain.operand[0].data = x.data() + first * row, r.chain.operand[1].data = factor.data() + first * lanes;
      r.out = rounded.data() + first / 2 * row * 2;
      products.round_chain(&r, scratch);
      if (cut == 0) break;
    }
    BOOST_TEST(rounded.guards_intact());
    BOOST_TEST(kernel_test::same_bits(std::as_const(rounded).data(), std::as_const(expected).data(), rounded.size()),
               images << " images of " << blocks << " blocks of " << pixels << " pixels");
  }
}

BOOST_AUTO_TEST_SUITE_END()
