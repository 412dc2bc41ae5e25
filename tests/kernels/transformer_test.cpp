// Row normalization and attention against references in wider arithmetic.
#include "kernel_test.h"

#include <algorithm>
#include <cstring>
#include <string>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const normalize_functions& normalizing() { return normalize_of(kernel_test::tested()); }
const attention_functions& functions() { return attention_of(kernel_test::tested()); }
const gemm_functions* products(bool wide) {
  return wide ? &gemm_f64_functions_of(kernel_test::tested()) : &gemm_f32_functions_of(kernel_test::tested());
}

struct norm {
  long rows, length;
  bool weight, bias, centered;
};

template <class T> struct norm_run {
  buffer<T> in, weight, bias, out, mean, scale;
  norm_run(const norm& s, std::mt19937& g)
      : in(static_cast<std::size_t>(s.rows * s.length), g() % 4),
        weight(static_cast<std::size_t>(s.length), g() % 4),
        bias(weight.size(), g() % 4),
        out(in.size(), g() % 4),
        mean(static_cast<std::size_t>(s.rows)),
        scale(mean.size()) {
    kernel_test::fill_uniform(in, g, -2, 5);
    kernel_test::fill_uniform(weight, g);
    kernel_test::fill_uniform(bias, g);
  }
  normalize_args args(const norm& s) {
    return {in.data(),
            s.weight ? weight.data() : nullptr,
            s.bias ? bias.data() : nullptr,
            out.data(),
            mean.data(),
            scale.data(),
            s.rows,
            s.length,
            1e-5,
            s.centered ? 1 : 0,
            0};
  }
};

template <class T> void normalizes(const norm& s, std::mt19937& g) {
  norm_run<T> run(s, g);
  const normalize_args args = run.args(s);
  const kernel normalize = normalizing().normalize[std::is_same_v<T, double>];
  normalize(&args, nullptr);
  BOOST_TEST((run.out.guards_intact() && run.mean.guards_intact() && run.scale.guards_intact()));
  bool right = true;
  for (long r = 0; r < s.rows; ++r) {
    const auto at = [&](long i) { return static_cast<std::size_t>(r * s.length + i); };
    long double sum = 0, size = 0, squares = 0;
    for (long i = 0; i < s.length; ++i) sum += run.in[at(i)], size += std::fabs(run.in[at(i)]);
    const long double n = static_cast<long double>(std::max(s.length, 1L)), mean = s.centered ? sum / n : 0;
    for (long i = 0; i < s.length; ++i) squares += (run.in[at(i)] - mean) * (run.in[at(i)] - mean);
    const long double scale = 1 / std::sqrt(squares / n + 1e-5L);
    right = right && kernel_test::close(run.mean[static_cast<std::size_t>(r)], mean, size / n, 8) &&
            kernel_test::close(run.scale[static_cast<std::size_t>(r)], scale, scale, 40);
    for (long i = 0; i < s.length; ++i) {
      const long double w = s.weight ? run.weight[static_cast<std::size_t>(i)] : 1.L;
      const long double b = s.bias ? run.bias[static_cast<std::size_t>(i)] : 0.L;
      const long double x = run.in[at(i)], wanted = (x - mean) * scale * w + b;
      right = right && kernel_test::close(run.out[at(i)], wanted,
                                          (std::fabs(x) + size / n) * scale * std::fabs(w) + std::fabs(b), 40);
    }
  }
  if (!right) BOOST_ERROR("rows " << s.rows << " of " << s.length << " centered " << s.centered);

  // a row computed alone has the same bits
  norm_run<T> alone(s, g);
  std::copy(run.in.begin(), run.in.end(), alone.in.begin());
  std::copy(run.weight.begin(), run.weight.end(), alone.weight.begin());
  std::copy(run.bias.begin(), run.bias.end(), alone.bias.begin());
  for (long r = 0; r < s.rows; ++r) {
    normalize_args row = alone.args(s);
    row.rows = 1;
    row.in = alone.in.data() + r * s.length, row.out = alone.out.data() + r * s.length;
    row.mean = alone.mean.data() + r, row.scale = alone.scale.data() + r;
    normalize(&row, nullptr);
  }
  BOOST_TEST(kernel_test::same_bits(std::as_const(run.out).data(), std::as_const(alone.out).data(), run.out.size()));
  BOOST_TEST(
      kernel_test::same_bits(std::as_const(run.scale).data(), std::as_const(alone.scale).data(), run.scale.size()));

  // in place
  normalize_args over = alone.args(s);
  over.out = alone.in.data(), over.mean = over.scale = nullptr;
  normalize(&over, nullptr);
  BOOST_TEST(kernel_test::same_bits(std::as_const(run.out).data(), std::as_const(alone.in).data(), run.out.size()));
}

struct heads {
  long queries, keys, depth, width;
};
enum class mask_kind { none, added, row, boolean };

template <class T> void attends(const heads& s, mask_kind mask, bool causal, std::mt19937& g) {
  const auto size = [](long a, long b) { return static_cast<std::size_t>(a * b); };
  buffer<T> q(size(s.queries, s.depth)), k(size(s.keys, s.depth)), v(size(s.keys, s.width)),
      out(size(s.queries, s.width)), parts(out.size()), added(size(s.queries, s.keys));
  buffer<std::uint8_t> kept(added.size());
  kernel_test::fill_uniform(q, g, -2, 2);
  kernel_test::fill_uniform(k, g, -2, 2);
  kernel_test::fill_uniform(v, g);
  kernel_test::fill_uniform(added, g, -3, 3);
  for (auto& x : kept) x = g() % 3 != 0;
  if (s.queries > 2)
    for (long j = 0; j < s.keys; ++j) kept[size(2, s.keys) + static_cast<std::size_t>(j)] = 0;  // fully masked
  attention_args a{};
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data();
  a.queries = s.queries, a.keys = s.keys, a.depth = s.depth, a.width = s.width, a.count = s.queries;
  a.q_row = a.k_row = s.depth, a.v_row = a.out_row = s.width;
  a.scale = 0.3, a.causal = causal;
  a.mask = mask == mask_kind::boolean ? static_cast<const void*>(kept.data())
           : mask == mask_kind::none  ? nullptr
                                      : added.data();
  a.mask_is_bool = mask == mask_kind::boolean;
  a.mask_row = mask == mask_kind::row ? 1 : s.keys, a.mask_column = mask == mask_kind::row ? 0 : 1;
  a.product = products(std::is_same_v<T, double>);
  const auto run = [](const attention_args& args) {
    const element e = std::is_same_v<T, double> ? element::f64 : element::f32;
    buffer<std::byte> scratch(functions().attention_scratch_bytes(&args, e));
    functions().attention[std::is_same_v<T, double>](&args, scratch.data());
    BOOST_TEST(scratch.guards_intact());
  };
  run(a);
  BOOST_TEST(out.guards_intact());
  bool right = true;
  for (long i = 0; i < s.queries; ++i) {
    std::vector<long double> score(static_cast<std::size_t>(s.keys));
    long double top = -INFINITY, total = 0;
    for (long j = 0; j < s.keys; ++j) {
      long double x = 0;
      for (long d = 0; d < s.depth; ++d)
        x += static_cast<long double>(q[size(i, s.depth) + static_cast<std::size_t>(d)]) *
             k[size(j, s.depth) + static_cast<std::size_t>(d)];
      x *= 0.3L;
      const std::size_t at = size(i, s.keys) + static_cast<std::size_t>(j);
      if (mask == mask_kind::added) x += added[at];
      if (mask == mask_kind::row) x += added[static_cast<std::size_t>(i)];
      if ((mask == mask_kind::boolean && !kept[at]) || (causal && j > i + s.keys - s.queries)) x = -INFINITY;
      score[static_cast<std::size_t>(j)] = x;
      top = std::max(top, x);
    }
    for (auto& x : score) x = std::isinf(top) ? 0 : std::exp(x - top), total += x;
    for (long w = 0; w < s.width; ++w) {
      long double y = 0;
      for (long j = 0; j < s.keys; ++j)
        y += score[static_cast<std::size_t>(j)] * v[size(j, s.width) + static_cast<std::size_t>(w)];
      if (total > 0) y /= total;
      right = right && kernel_test::close(out[size(i, s.width) + static_cast<std::size_t>(w)], y, 1.L, 12);
    }
  }
  if (!right)
    BOOST_ERROR("attention of " << s.queries << " queries to " << s.keys << " keys, depth " << s.depth << ", width "
                                << s.width << ", mask " << static_cast<int>(mask) << ", causal " << causal);
  // the same bits in parts: the longest row of a causal block bounds all its sums
  a.out = parts.data();
  for (const long piece : {1L, attention_rows})
    if (s.queries > piece && (!causal || piece == attention_rows)) {
      for (long i = 0; i < s.queries; i += piece) {
        a.first = i, a.count = std::min(piece, s.queries - i);
        run(a);
      }
      BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), std::as_const(parts).data(), out.size()),
                 "parts of " << piece << " of " << s.queries << " queries to " << s.keys);
    }

  // the same bits from packed keys, and values, that parts share
  const auto packed = [](const gemm_functions& product, gemm_prepack_args p) {
    buffer<std::byte> to(product.packed_bytes(p.k, p.n));
    p.packed = to.data();
    product.prepack(&p, nullptr);
    BOOST_TEST(to.guards_intact());
    return to;
  };
  buffer<std::byte> packed_keys = packed(*a.product, {s.depth, s.keys, k.data(), 1, s.depth, nullptr}),
                    packed_values = packed(*a.product, {s.keys, s.width, v.data(), s.width, 1, nullptr});
  for (const bool values : {false, true}) {
    if (values && causal) break;
    std::fill_n(parts.data(), parts.size(), T(7));
    a.k = packed_keys.data(), a.keys_packed = 1;
    if (values) a.v = packed_values.data(), a.values_packed = 1;
    for (long i = 0; i < s.queries; i += attention_rows) {
      a.first = i, a.count = std::min(attention_rows, s.queries - i);
      run(a);
    }
    BOOST_TEST(parts.guards_intact());
    BOOST_TEST(kernel_test::same_bits(std::as_const(out).data(), std::as_const(parts).data(), out.size()),
               "packed " << (values ? "keys and values" : "keys"));
  }
  a.keys_packed = a.values_packed = 0;

  // the same bits where the rows of several heads are interleaved; those of other heads stay unchanged
  a.first = 0, a.count = s.queries;
  const auto spread = [&](const buffer<T>& from, long rows, long columns, long heads) {
    buffer<T> to(size(rows, columns * heads));
    kernel_test::fill_uniform(to, g, -9, 9);
    for (long r = 0; r < rows; ++r)
      std::copy_n(from.data() + r * columns, columns, to.data() + (r * heads + heads - 1) * columns);
    return to;
  };
  buffer<T> all_q = spread(q, s.queries, s.depth, 3), all_k = spread(k, s.keys, s.depth, 2),
            all_v = spread(v, s.keys, s.width, 2), all_out(size(s.queries, 3 * s.width));
  std::fill_n(all_out.data(), all_out.size(), T(7));
  a.q_row = 3 * s.depth, a.k_row = 2 * s.depth, a.v_row = 2 * s.width, a.out_row = 3 * s.width;
  a.q = all_q.data() + 2 * s.depth, a.k = all_k.data() + s.depth, a.v = all_v.data() + s.width;
  a.out = all_out.data() + 2 * s.width;
  run(a);
  BOOST_TEST(all_out.guards_intact());
  bool same = true;
  for (long i = 0; i < s.queries; ++i)
    for (long j = 0; j < 3 * s.width; ++j) {
      const T is = std::as_const(all_out)[size(i, 3 * s.width) + static_cast<std::size_t>(j)],
              expected = j < 2 * s.width
                             ? T(7)
                             : std::as_const(out)[size(i, s.width) + static_cast<std::size_t>(j - 2 * s.width)];
      same = same && std::memcmp(&is, &expected, sizeof is) == 0;
    }
  BOOST_TEST(same, "rows first: " << s.queries << " queries to " << s.keys);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transformer_suite)

BOOST_AUTO_TEST_CASE(normalization) {
  std::mt19937 g(3);
  for (const long rows : {1L, 2L, 3L, 7L, 8L, 9L, 16L, 19L})
    for (const long length : {0L, 1L, 5L, 16L, 31L, 64L, 100L, 257L, 700L, 1000L})
      for (const bool centered : {true, false}) {
        normalizes<float>({rows, length, g() % 2 == 0, g() % 2 == 0, centered}, g);
        normalizes<double>({rows, length, g() % 2 == 0, g() % 2 == 0, centered}, g);
      }
  for (const long length : {3000L, 4096L, 4097L, 9000L}) {
    normalizes<float>({3, length, true, true, true}, g);
    normalizes<double>({3, length, true, true, true}, g);
  }
}

BOOST_AUTO_TEST_CASE(attention) {
  std::mt19937 g(5);
  for (const auto mask : {mask_kind::none, mask_kind::added, mask_kind::row, mask_kind::boolean})
    for (const bool causal : {false, true})
      for (const heads& s :
           {heads{1, 1, 1, 1}, heads{3, 7, 5, 3}, heads{16, 16, 32, 32}, heads{17, 33, 8, 20}, heads{65, 130, 32, 32},
            heads{70, 40, 16, 64}, heads{2, 600, 64, 48}, heads{130, 130, 7, 9}, heads{5, 2100, 32, 32}}) {
        attends<float>(s, mask, causal, g);
        attends<double>(s, mask, causal, g);
      }
}

BOOST_AUTO_TEST_SUITE_END()
