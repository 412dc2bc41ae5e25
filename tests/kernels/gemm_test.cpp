// Matrix products against a scalar reference: layouts, tails, batches, epilogues, and equal bits on every path.
#include "kernel_test.h"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

template <class T> const gemm_functions& functions(isa set = kernel_test::tested()) {
  if constexpr (std::is_same_v<T, float>) return gemm_f32_functions_of(set);
  else return gemm_f64_functions_of(set);
}
const bfloat_functions& bfloat(isa set = kernel_test::tested()) { return bfloat_of(set); }
/// The forms of bfloat16 products that this machine has.
int form_count() { return bfloat().forms(); }
template <class T> using wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

enum class layout { rows, columns, any, prepacked };
constexpr layout plain_layouts[] = {layout::rows, layout::columns, layout::any};
constexpr layout b_layouts[] = {layout::rows, layout::columns, layout::any, layout::prepacked};

struct epilogue {
  bool bias_column = false, bias_row = false, residual = false, clamp = false, accumulate = false;
};
constexpr epilogue everything{true, true, true, true, true};

/// The numbers of a problem, compact and row-major, whatever the layout of a call.
template <class T> struct numbers {
  long m, n, k, batch;
  std::vector<T> a, b, c, residual, bias_column, bias_row;
  T low = T(-0.5), high = T(0.75);

  numbers(long rows, long columns, long depth, long products = 1, unsigned seed = 1)
      : m(rows), n(columns), k(depth), batch(products) {
    std::mt19937 generator(seed);
    const auto make = [&](std::vector<T>& x, long count) {
      x.resize(static_cast<std::size_t>(count));
      kernel_test::fill_uniform(x, generator);
    };
    make(a, batch * m * k);
    make(b, batch * k * n);
    make(c, batch * m * n);
    make(residual, batch * m * n);
    make(bias_column, n);
    make(bias_row, m);
  }
};
std::size_t at(long i) { return static_cast<std::size_t>(i); }

/// One matrix per product of a batch, in the given layout, with padding between rows (or columns) and products.
template <class T> struct operand {
  long row, column, step;
  buffer<T> data;

  operand(const std::vector<T>& from, long rows, long columns, long batch, layout how, long pad, std::size_t offset)
      : row(how == layout::rows      ? columns + pad
            : how == layout::columns ? 1
                                     : 2 * (columns + pad)),
        column(how == layout::rows      ? 1
               : how == layout::columns ? rows + pad
                                        : 2),
        step(how == layout::columns ? column * columns : row * rows),
        data(at(batch * step), offset) {
    std::fill(data.begin(), data.end(), std::numeric_limits<T>::quiet_NaN());
    for (long z = 0; z < batch; ++z)
      for (long i = 0; i < rows; ++i)
        for (long j = 0; j < columns; ++j)
          data[at(z * step + i * row + j * column)] = from[at((z * rows + i) * columns + j)];
  }
};

struct call {
  layout a = layout::rows, b = layout::rows;
  epilogue end{};
  long pad = 0;
  bool share_a = false, share_b = false;
  bool best = false, relaxed_summation = false;  // the kernel that `prepare_kernel` gives, instead of the general one
  bool compact = false;                          // the kernel variant with less code
  int direction = 0;                             // direction of the last run of a relaxed row
  int form = -1;                                 // form of bfloat16 products, -1: none
  layout from = layout::columns;                 // layout of B before packing
  bool rounded = false;                          // A was rounded beforehand
  isa set = kernel_test::tested();
};

template <class T> struct outcome {
  std::vector<T> c;  // compact
  gemm_args args;
};

template <class T> const gemm_functions& functions(const call& how) {
  if constexpr (std::is_same_v<T, float>)
    if (how.form >= 0) return *bfloat(how.set).products[how.form].gemm;
  return functions<T>(how.set);
}
/// An operand as the products of a call read it.
template <class T> wide<T> read_by(const call& how, T value) {
  return how.form < 0 ? value : kernel_test::rounded_to_bfloat(static_cast<float>(value));
}

/// Runs one call and checks that nothing beyond C[0..m, 0..n] was written.
template <class T> outcome<T> run(const numbers<T>& x, const call& how) {
  const auto& gemm = functions<T>(how);
  const long a_count = how.share_a ? 1 : x.batch, b_count = how.share_b ? 1 : x.batch;
  const auto offset = at(how.pad % 3);
  const operand<T> a(x.a, x.m, x.k, a_count, how.a, how.pad, offset);
  const operand<T> b(x.b, x.k, x.n, b_count, how.b == layout::prepacked ? how.from : how.b, how.pad, offset);
  operand<T> c(x.c, x.m, x.n, x.batch, layout::rows, how.pad, offset);
  const operand<T> residual(x.residual, x.m, x.n, x.batch, layout::rows, how.pad + 1, 0);

  const auto panel_count = gemm.packed_bytes(x.k, x.n) / sizeof(T);
  buffer<T> packed(panel_count * at(b_count));
  gemm_args g{};
  g.m = x.m, g.n = x.n, g.k = x.k;
  g.a_row = a.row, g.a_column = a.column;
  g.b_row = b.row, g.b_column = b.column;
  g.c_row = c.row;
  g.batch = x.batch;
  g.a_batch = how.share_a ? 0 : a.step;
  g.b_batch = how.share_b ? 0 : how.b == layout::prepacked ? static_cast<long>(panel_count) : b.step;
  g.c_batch = c.step;
  g.prepacked = how.b == layout::prepacked;
  g.accumulate = how.end.accumulate;
  g.relaxed_summation = how.relaxed_summation;
  g.direction = how.direction;
  buffer<unsigned char> rounded(0);
  if (how.rounded) {
    const auto& f = bfloat(how.set).products[how.form];
    const auto whole = [](long count, long group) { return (count + group - 1) / group * group; };
    const long row = whole(x.k, f.numbers_group);
    rounded = buffer<unsigned char>(at(whole(x.m, f.row_group) * row) * f.number_bytes);
    const bfloat_round_args r{x.m, x.k, reinterpret_cast<const float*>(a.data.data()), a.row, a.column, rounded.data()};
    f.round(&r, nullptr);
    BOOST_REQUIRE(rounded.guards_intact());
    g.rounded = 1, g.a_row = row, g.a_column = 1;
  }
  const kernel best = how.best ? gemm.prepare_kernel(&g, how.compact) : gemm.prepare(&g);
  g.a = how.rounded ? static_cast<const void*>(rounded.data()) : a.data.data();
  g.c = c.data.data();
  g.b = b.data.data();
  if (how.b == layout::prepacked) {
    for (long z = 0; z < b_count; ++z) {
      const gemm_prepack_args p{x.k,   x.n,      b.data.data() + z * b.step,
                                b.row, b.column, packed.data() + z * static_cast<long>(panel_count)};
      gemm.prepack(&p, nullptr);
    }
    g.b = packed.data();
  }
  if (how.end.bias_column) g.bias_column = x.bias_column.data();
  if (how.end.bias_row) g.bias_row = x.bias_row.data();
  if (how.end.residual) {
    g.residual = residual.data.data();
    g.residual_row = residual.row;
    g.residual_batch = residual.step;
  }
  g.clamp = how.end.clamp;
  g.low = static_cast<double>(x.low), g.high = static_cast<double>(x.high);
  buffer<unsigned char> scratch(gemm.scratch_bytes(&g));
  (how.best ? best : gemm.run)(&g, scratch.data());

  BOOST_REQUIRE(scratch.guards_intact() && packed.guards_intact() && c.data.guards_intact());
  outcome<T> result{std::vector<T>(at(x.batch * x.m * x.n)), g};
  bool gaps_intact = true;
  for (long z = 0; z < x.batch; ++z)
    for (long i = 0; i < x.m; ++i)
      for (long j = 0; j < c.row; ++j) {
        const T value = c.data[at(z * c.step + i * c.row + j)];
        if (j < x.n) result.c[at((z * x.m + i) * x.n + j)] = value;
        else gaps_intact = gaps_intact && std::isnan(value);
      }
  BOOST_REQUIRE(gaps_intact);
  return result;
}

/// Number of results that differ from the scalar reference by more than rounding.
template <class T> long wrong(const numbers<T>& x, const call& how, const std::vector<T>& actual) {
  using W = wide<T>;
  long count = 0;
  std::vector<W> columns(x.b.size());
  for (std::size_t j = 0; j < x.b.size(); ++j) columns[j] = static_cast<W>(read_by(how, x.b[j]));
  for (long z = 0; z < x.batch; ++z)
    for (long i = 0; i < x.m; ++i) {
      std::vector<W> sum(at(x.n), 0), magnitude(at(x.n), 0);
      for (long p = 0; p < x.k; ++p) {
        const W value = read_by(how, x.a[at(((how.share_a ? 0 : z) * x.m + i) * x.k + p)]);
        const W* row = columns.data() + ((how.share_b ? 0 : z) * x.k + p) * x.n;
        for (long j = 0; j < x.n; ++j) {
          const W term = value * row[j];
          sum[at(j)] += term;
          magnitude[at(j)] += std::abs(term);
        }
      }
      for (long j = 0; j < x.n; ++j) {
        const auto here = at((z * x.m + i) * x.n + j);
        const auto add = [&](bool wanted, T value) {
          if (!wanted) return;
          sum[at(j)] += static_cast<W>(value);
          magnitude[at(j)] += std::abs(static_cast<W>(value));
        };
        add(how.end.accumulate, x.c[here]);
        add(how.end.bias_column, x.bias_column[at(j)]);
        add(how.end.bias_row, x.bias_row[at(i)]);
        add(how.end.residual, x.residual[here]);
        if (how.end.clamp) sum[at(j)] = std::min<W>(std::max<W>(sum[at(j)], x.low), x.high);
        if (!kernel_test::close(actual[here], sum[at(j)], magnitude[at(j)], x.k + 4)) ++count;
      }
    }
  return count;
}

template <class T> bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && kernel_test::same_bits(a.data(), b.data(), a.size());
}

std::string size_of(long m, long n, long k) {
  return std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
}

/// Every layout of A and B: correct results, and the same bits.
template <class T> void check_layouts(const numbers<T>& x, const epilogue& end, long pad) {
  const auto first = run<T>(x, {.end = end, .pad = pad}).c;
  BOOST_CHECK_EQUAL(wrong<T>(x, {.end = end}, first), 0);
  for (const layout a : plain_layouts)
    for (const layout b : b_layouts)
      BOOST_CHECK_MESSAGE(same(run<T>(x, {.a = a, .b = b, .end = end, .pad = pad}).c, first),
                          "layouts " << static_cast<int>(a) << ' ' << static_cast<int>(b) << " differ");
}

/// Rows [i0, i1) and columns [j0, j1) as a separate problem.
template <class T> numbers<T> part(const numbers<T>& x, long i0, long i1, long j0, long j1) {
  numbers<T> y(i1 - i0, j1 - j0, x.k);
  const auto cut = [](const std::vector<T>& from, std::vector<T>& to, long r0, long r1, long c0, long c1, long row) {
    auto out = to.begin();
    for (long r = r0; r < r1; ++r) out = std::copy(from.begin() + r * row + c0, from.begin() + r * row + c1, out);
  };
  cut(x.a, y.a, i0, i1, 0, x.k, x.k);
  cut(x.b, y.b, 0, x.k, j0, j1, x.n);
  cut(x.c, y.c, i0, i1, j0, j1, x.n);
  cut(x.residual, y.residual, i0, i1, j0, j1, x.n);
  cut(x.bias_column, y.bias_column, 0, 1, j0, j1, x.n);
  cut(x.bias_row, y.bias_row, 0, 1, i0, i1, x.m);
  return y;
}

/// Whether a part computed alone has the same bits as in the whole.
template <class T> bool part_agrees(const numbers<T>& x, const std::vector<T>& whole, const call& how, long i0, long i1,
                                    long j0, long j1) {
  const auto alone = run<T>(part(x, i0, i1, j0, j1), how).c;
  const long width = j1 - j0;
  for (long i = i0; i < i1; ++i)
    if (!kernel_test::same_bits(whole.data() + i * x.n + j0, alone.data() + (i - i0) * width, at(width))) return false;
  return true;
}

using elements = std::tuple<float, double>;

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_gemm)

BOOST_AUTO_TEST_CASE(the_comparator_can_fail) {
  BOOST_CHECK(kernel_test::close(1.0f, 1.0, 1.0, 1));
  BOOST_CHECK(kernel_test::close(1.0f + 4e-7f, 1.0, 1.0, 1));
  BOOST_CHECK(!kernel_test::close(1.0f + 6e-7f, 1.0, 1.0, 1));
  BOOST_CHECK(!kernel_test::close(0.5f, 1.0, 1.0, 100));
  BOOST_CHECK(!kernel_test::close(NAN, 1.0, 1.0, 100));
  BOOST_CHECK(!kernel_test::close(1.0f, double(NAN), 1.0, 100));
  BOOST_CHECK(!kernel_test::close(INFINITY, 1.0, 1.0, 100));
  BOOST_CHECK(!kernel_test::close(INFINITY, -double(INFINITY), double(INFINITY), 100));
  BOOST_CHECK(kernel_test::close(NAN, double(NAN), 1.0, 1));

  numbers<float> x(7, 19, 5);
  auto c = run<float>(x, {}).c;
  BOOST_CHECK_EQUAL(wrong<float>(x, {}, c), 0);
  c[50] += 1e-3f;
  BOOST_CHECK_EQUAL(wrong<float>(x, {}, c), 1);
  buffer<float> guarded(5);
  BOOST_CHECK(guarded.guards_intact());
  guarded.data()[5] = 0;
  BOOST_CHECK(!guarded.guards_intact());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_width_from_nothing_to_three_registers, T, elements) {
  const long max = 3 * lanes(kernel_test::tested()) * 4 / static_cast<long>(sizeof(T)) + 1;
  for (long n = 0; n <= max; ++n)
    for (const long m : {1L, 3L})
      BOOST_TEST_CONTEXT(size_of(m, n, 5)) check_layouts(numbers<T>(m, n, 5), n % 2 ? everything : epilogue{}, n % 4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_height_and_depth_of_small_products, T, elements) {
  for (long m = 0; m <= 2 * functions<T>().tile_rows + 1; ++m)
    BOOST_TEST_CONTEXT(size_of(m, 21, 9)) check_layouts(numbers<T>(m, 21, 9), m % 2 ? everything : epilogue{}, m % 4);
  for (long k = 0; k <= 40; ++k)
    BOOST_TEST_CONTEXT(size_of(7, 21, k)) check_layouts(numbers<T>(7, 21, k), k % 2 ? everything : epilogue{}, k % 4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(random_sizes_and_epilogues, T, elements) {
  std::mt19937 generator(7);
  const auto pick = [&](long low, long high) { return std::uniform_int_distribution<long>(low, high)(generator); };
  for (int trial = 0; trial < 90; ++trial) {
    const long m = trial % 6 == 0 ? 1 : pick(1, 70), n = pick(1, 160);
    const long k = trial % 8 == 0 ? pick(700, 1700) : pick(1, 90);
    const epilogue end{pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1};
    BOOST_TEST_CONTEXT(size_of(m, n, k)) check_layouts(numbers<T>(m, n, k, 1, 100 + unsigned(trial)), end, pick(0, 5));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_row_has_the_bits_of_the_general_kernel, T, elements) {
  for (const long k : {0L, 1L, 2L, 3L, 9L, 64L, 768L, 769L, 1600L})
    for (long n = 1; n <= 330; n += (n < 35 && k < 64) || (n > 250 && k == 9) ? 1 : 37)
      for (const layout a : plain_layouts) {
        const numbers<T> x(1, n, k);
        epilogue end = n % 3 ? everything : epilogue{};
        if (n % 3 == 2) end.accumulate = false;
        const call how{.a = a, .b = layout::prepacked, .end = end, .pad = n % 4};
        call best = how, relaxed_summation = how;
        best.best = relaxed_summation.best = relaxed_summation.relaxed_summation = true;
        BOOST_TEST_CONTEXT(size_of(1, n, k)) {
          const auto general = run<T>(x, how).c;
          BOOST_CHECK(same(run<T>(x, best).c, general));
          const auto there = run<T>(x, relaxed_summation).c;
          BOOST_CHECK_EQUAL(wrong<T>(x, relaxed_summation, there), 0);
          relaxed_summation.direction = 1;
          BOOST_CHECK(same(run<T>(x, relaxed_summation).c, there));
        }
      }
}

// The kernels that bundles use where the weights fit in L1, and sizes where they do not fit.
BOOST_AUTO_TEST_CASE_TEMPLATE(compact_kernels_have_the_bits_of_the_general_kernel, T, elements) {
  for (const auto& [n, k] :
       {std::pair{1L, 1L}, {10L, 64L}, {47L, 9L}, {256L, 28L}, {300L, 27L}, {257L, 40L}, {7L, 769L}})
    for (const long m : {1L, 2L, 7L, 19L})
      for (const layout a : plain_layouts)
        for (const bool accumulate : {false, true}) {
          const numbers<T> x(m, n, k);
          epilogue end = m % 2 ? everything : epilogue{};
          end.accumulate = accumulate;
          call how{.a = a, .b = layout::prepacked, .end = end, .pad = n % 4};
          const auto general = run<T>(x, how).c;
          how.best = how.compact = true;
          BOOST_TEST_CONTEXT(size_of(m, n, k)) BOOST_CHECK(same(run<T>(x, how).c, general));
        }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_single_column_is_summed_along_rows, T, elements) {
  for (const long k : {0L, 1L, 7L, 8L, 15L, 16L, 17L, 24L, 31L, 40L, 1000L})
    for (const long m : {1L, 3L, 4L, 9L}) {
      const numbers<T> x(m, 1, k);
      const call how{.end = k % 2 ? everything : epilogue{}, .pad = m % 4, .best = true};
      const auto c = run<T>(x, how).c;
      BOOST_TEST_CONTEXT(size_of(m, 1, k)) {
        BOOST_CHECK_EQUAL(wrong<T>(x, how, c), 0);
        for (long i = 0; i < m; ++i) BOOST_CHECK(part_agrees(x, c, how, i, i + 1, 0, 1));
      }
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_product_of_one_tile_has_the_bits_of_the_general_kernel, T, elements) {
  for (const long m : {1L, 2L, 4L, 5L, 8L})
    for (const long n : {2L, 3L, 4L, 7L, 8L, 16L, 20L, 48L})
      for (const long k : {0L, 1L, 4L, 33L, 768L})
        for (const layout b : {layout::rows, layout::columns, layout::prepacked}) {
          const numbers<T> x(m, n, k);
          for (const bool accumulate : {false, true}) {
            epilogue end = n % 2 ? everything : epilogue{};
            end.accumulate = accumulate;
            call how{.a = plain_layouts[at(k % 2)], .b = b, .end = end, .pad = (m + n) % 4};
            const auto general = run<T>(x, how).c;
            how.best = true;
            const auto c = run<T>(x, how).c;
            BOOST_TEST_CONTEXT(size_of(m, n, k)) {
              BOOST_CHECK(same(c, general));
              BOOST_CHECK_EQUAL(wrong<T>(x, how, c), 0);
            }
          }
        }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(packed_blocks_of_every_axis, T, elements) {
  // more rows, columns and depth than one block holds, and strides that map to the same sets of L1
  struct {
    long m, n, k, pad;
  } const cases[] = {{70, 4250, 60, 0}, {150, 530, 800, 3}, {37, 1024, 1024, 0}, {1, 4250, 800, 2}};
  for (const auto& s : cases) {
    BOOST_TEST_CONTEXT(size_of(s.m, s.n, s.k)) {
      const numbers<T> x(s.m, s.n, s.k);
      const auto first = run<T>(x, {.end = everything, .pad = s.pad});
      BOOST_CHECK(first.args.pack_b || s.m == 1);
      BOOST_CHECK_EQUAL(wrong<T>(x, {.end = everything}, first.c), 0);
      for (const layout a : plain_layouts)
        for (const layout b : {layout::columns, layout::prepacked})
          BOOST_CHECK(same(run<T>(x, {.a = a, .b = b, .end = everything, .pad = s.pad}).c, first.c));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bits_do_not_depend_on_how_rows_and_columns_are_split, T, elements) {
  const numbers<T> x(75, 1120, 800);
  const call how{.end = everything, .pad = 1};
  const auto whole = run<T>(x, how);
  BOOST_CHECK_EQUAL(whole.args.pack_b, 1);
  BOOST_CHECK(whole.args.k_block < x.k);
  for (const auto& [i0, i1] : {std::pair{0L, 1L}, {1L, 2L}, {0L, 40L}, {40L, 75L}, {70L, 75L}})
    for (const auto& [j0, j1] : {std::pair{0L, 1L}, {5L, 33L}, {0L, 560L}, {560L, 1120L}, {0L, 1120L}})
      for (const layout b : {layout::rows, layout::prepacked})
        BOOST_CHECK_MESSAGE(part_agrees(x, whole.c, {.b = b, .end = everything}, i0, i1, j0, j1),
                            "rows " << i0 << ".." << i1 << ", columns " << j0 << ".." << j1 << " differ");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_part_of_prepacked_weights_starts_at_a_panel, T, elements) {
  const auto& gemm = functions<T>();
  const numbers<T> x(5, 4 * gemm.panel_columns + 3, 33);
  const auto whole = run<T>(x, {.b = layout::prepacked}).c;
  buffer<T> packed(gemm.packed_bytes(x.k, x.n) / sizeof(T));
  const gemm_prepack_args p{x.k, x.n, x.b.data(), x.n, 1, packed.data()};
  gemm.prepack(&p, nullptr);
  const long start = 2 * gemm.panel_columns;
  std::vector<T> c(at(x.m * x.n));
  gemm_args g{};
  g.m = x.m, g.n = x.n - start, g.k = x.k;
  g.a_row = x.k, g.a_column = 1, g.c_row = x.n, g.batch = 1, g.prepacked = 1;
  gemm.prepare(&g);
  g.a = x.a.data(), g.b = packed.data() + start * x.k, g.c = c.data() + start;
  buffer<unsigned char> scratch(gemm.scratch_bytes(&g));
  gemm.run(&g, scratch.data());
  for (long i = 0; i < x.m; ++i)
    BOOST_CHECK(kernel_test::same_bits(c.data() + i * x.n + start, whole.data() + i * x.n + start, at(x.n - start)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(batches_with_own_and_shared_operands, T, elements) {
  struct {
    long m, n, k;
  } const cases[] = {{1, 40, 30}, {5, 17, 9}, {40, 600, 810}};
  for (const auto& s : cases)
    for (const bool share_a : {false, true})
      for (const bool share_b : {false, true}) {
        const numbers<T> x(s.m, s.n, s.k, 3);
        const call how{.end = everything, .pad = 2, .share_a = share_a, .share_b = share_b};
        BOOST_TEST_CONTEXT(size_of(s.m, s.n, s.k) << (share_a ? " shared A" : "") << (share_b ? " shared B" : "")) {
          const auto first = run<T>(x, how).c;
          BOOST_CHECK_EQUAL(wrong<T>(x, how, first), 0);
          for (const layout b : b_layouts) {
            call other = how;
            other.b = b;
            BOOST_CHECK(same(run<T>(x, other).c, first));
          }
        }
      }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(each_part_of_the_epilogue_alone, T, elements) {
  const epilogue ends[] = {
      {.bias_column = true}, {.bias_row = true}, {.residual = true}, {.clamp = true}, {.accumulate = true}};
  for (const epilogue& end : ends) check_layouts(numbers<T>(11, 53, 790), end, 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(nan_survives_the_clamp_and_infinity_is_cut, T, elements) {
  for (const long m : {1L, 9L})
    for (const layout b : b_layouts) {
      numbers<T> x(m, 37, 4);
      x.b[3] = std::numeric_limits<T>::quiet_NaN();
      x.b[7] = std::numeric_limits<T>::infinity();
      const auto c = run<T>(x, {.b = b, .end = {.clamp = true}}).c;
      for (long i = 0; i < m; ++i)
        for (long j = 0; j < x.n; ++j) {
          const T value = c[at(i * x.n + j)];
          BOOST_CHECK_EQUAL(std::isnan(value), j == 3);
          if (j == 7) BOOST_CHECK(value == x.low || value == x.high);
        }
    }
}

BOOST_AUTO_TEST_CASE(sets_that_fuse_give_the_same_bits) {
  const isa wide = kernel_test::tested();
  if (wide != isa::avx512 && wide != isa::neon64) return;
  for (const auto& [m, n, k] : {std::tuple{1L, 100L, 1000L}, {13L, 131L, 2000L}, {60L, 700L, 800L}}) {
    const numbers<float> x(m, n, k);
    for (const layout b : b_layouts) {
      const call narrow{.b = b, .end = everything, .set = isa::avx2};
      const call broad{.b = b, .end = everything, .set = wide};
      BOOST_CHECK(same(run<float>(x, narrow).c, run<float>(x, broad).c));
    }
  }
  for (const long k : {3L, 20L, 500L}) {
    const numbers<float> x(5, 1, k);
    BOOST_CHECK(same(run<float>(x, {.best = true, .set = isa::avx2}).c, run<float>(x, {.best = true, .set = wide}).c));
  }
}

// ---- products of bfloat16 numbers: every form that the machine has

/// Every layout of A, and of B before packing: correct, and the same bits in each form of a set that fuses, but with AMX.
void check_bfloat(const numbers<float>& x, const epilogue& end, long pad) {
  auto first = run<float>(x, {.b = layout::prepacked, .end = end, .pad = pad, .form = 0}).c;
  BOOST_CHECK_EQUAL(wrong<float>(x, {.end = end, .form = 0}, first), 0);
  for (int form = 0; form < form_count(); ++form) {
    if (form == bfloat_form_of_amx) {
      first = run<float>(x, {.b = layout::prepacked, .end = end, .pad = pad, .form = form}).c;
      BOOST_CHECK_EQUAL(wrong<float>(x, {.end = end, .form = form}, first), 0);
    }
    for (const layout a : plain_layouts)
      for (const layout from : plain_layouts) {
        call how{.a = a, .b = layout::prepacked, .end = end, .pad = pad, .form = form, .from = from};
        how.rounded = from == layout::any;
        BOOST_CHECK_MESSAGE(same(run<float>(x, how).c, first), "form " << form << ", layouts " << static_cast<int>(a)
                                                                       << ' ' << static_cast<int>(from) << " differ");
      }
  }
}

BOOST_AUTO_TEST_CASE(bfloat_operands_are_rounded) {
  const numbers<float> x(7, 19, 33);
  const auto c = run<float>(x, {.b = layout::prepacked, .form = form_count() - 1}).c;
  BOOST_CHECK_EQUAL(wrong<float>(x, {.form = 0}, c), 0);
  BOOST_CHECK(wrong<float>(x, {}, c) > 7 * 19 / 2);
  BOOST_CHECK_EQUAL(read_by<float>({.form = 0}, 1.00390625f), 1.0);  // ties to even
  BOOST_CHECK_EQUAL(read_by<float>({.form = 0}, 1.01171875f), 1.015625);
}

BOOST_AUTO_TEST_CASE(bfloat_of_every_width_height_and_depth) {
  for (long n = 0; n <= 3 * lanes(kernel_test::tested()) + 1; ++n)
    for (const long m : {1L, 3L}) BOOST_TEST_CONTEXT(size_of(m, n, 5))
  check_bfloat(numbers<float>(m, n, 5), n % 2 ? everything : epilogue{}, n % 4);
  const long rows = bfloat().products[form_count() - 1].gemm->tile_rows;
  for (long m = 0; m <= 2 * rows + 1; ++m) BOOST_TEST_CONTEXT(size_of(m, 21, 9))
  check_bfloat(numbers<float>(m, 21, 9), m % 2 ? everything : epilogue{}, m % 4);
  for (long k = 0; k <= 70; ++k)
    for (const long m : {1L, 7L}) BOOST_TEST_CONTEXT(size_of(m, 21, k))
  check_bfloat(numbers<float>(m, 21, k), k % 2 ? everything : epilogue{}, k % 4);
}

BOOST_AUTO_TEST_CASE(bfloat_of_random_sizes_and_epilogues) {
  std::mt19937 generator(8);
  const auto pick = [&](long low, long high) { return std::uniform_int_distribution<long>(low, high)(generator); };
  for (int trial = 0; trial < 60; ++trial) {
    const long m = trial % 6 == 0 ? 1 : pick(1, 150), n = trial % 9 == 0 ? pick(4000, 4300) : pick(1, 260);
    const long k = trial % 8 == 0 ? pick(700, 1700) : pick(1, 90);
    const epilogue end{pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1, pick(0, 1) == 1};
    BOOST_TEST_CONTEXT(size_of(m, n, k))
    check_bfloat(numbers<float>(m, n, k, 1, 300 + unsigned(trial)), end, pick(0, 5));
  }
}

BOOST_AUTO_TEST_CASE(bfloat_bits_do_not_depend_on_how_rows_and_columns_are_split) {
  const numbers<float> x(75, 560, 1537);
  for (int form = 0; form < form_count(); ++form) {
    const call how{.b = layout::prepacked, .end = everything, .pad = 1, .form = form};
    const auto whole = run<float>(x, how);
    BOOST_CHECK(whole.args.k_block < x.k || bfloat().products[form].row_group > 1);  // AMX sums all of K in its tiles
    for (const auto& [i0, i1] : {std::pair{0L, 1L}, {0L, 40L}, {40L, 75L}, {70L, 75L}})
      for (const auto& [j0, j1] : {std::pair{0L, 1L}, {5L, 33L}, {280L, 560L}, {0L, 560L}})
        BOOST_CHECK_MESSAGE(part_agrees(x, whole.c, how, i0, i1, j0, j1),
                            "rows " << i0 << ".." << i1 << ", columns " << j0 << ".." << j1 << " differ");
  }
}

BOOST_AUTO_TEST_CASE(bfloat_keeps_nan_and_infinity) {
  for (int form = 0; form < form_count(); ++form)
    for (const long m : {1L, 9L}) {
      numbers<float> x(m, 37, 3);
      const auto nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
      x.b[3] = nan, x.b[7] = infinity;
      x.a[at((m - 1) * x.k + 2)] = std::bit_cast<float>(0x7f800001u);  // a NaN that rounding would make infinite
      const auto c = run<float>(x, {.b = layout::prepacked, .form = form}).c;
      for (long i = 0; i < m; ++i)
        for (long j = 0; j < x.n; ++j) {
          const float value = c[at(i * x.n + j)];
          BOOST_CHECK_EQUAL(std::isnan(value), j == 3 || i == m - 1);
          if (j == 7 && i < m - 1) BOOST_CHECK(std::isinf(value));
        }
    }
}

BOOST_AUTO_TEST_CASE(bfloat_of_sets_that_fuse_gives_the_same_bits) {
  const isa wide = kernel_test::tested();
  if (wide != isa::avx512 && wide != isa::neon64) return;
  for (const auto& [m, n, k] : {std::tuple{1L, 100L, 1001L}, {13L, 131L, 2000L}, {60L, 700L, 801L}}) {
    const numbers<float> x(m, n, k);
    const call narrow{.b = layout::prepacked, .end = everything, .form = 0, .set = isa::avx2};
    const call broad{
        .b = layout::prepacked, .end = everything, .form = std::min(form_count(), bfloat_form_of_amx) - 1, .set = wide};
    BOOST_CHECK(same(run<float>(x, narrow).c, run<float>(x, broad).c));
  }
}

BOOST_AUTO_TEST_SUITE_END()
