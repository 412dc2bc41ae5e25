// Samples evaluated one by one through one plan: merged into batched operations, with the same bits.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>
#include <vector>

import lamina;

#include "elementwise_functions.h"

using namespace lamina;
using namespace lamina::ir;

namespace {

matrix<float> filled_with(std::int64_t rows, std::int64_t columns, int seed) {
  matrix<float> m(rows, columns);
  auto d = m.writable();
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(seed) * 97u) % 1000u) / 500.f - 1.f;
  return m;
}
template <class A, class B> bool same_bits(const A& a, const B& b) {
  return a.shape() == b.shape() && std::memcmp(a.data().data(), b.data().data(), a.data().size() * sizeof(float)) == 0;
}
struct weights {
  matrix<float> w1 = filled_with(20, 33, 1), w2 = filled_with(33, 5, 2), b1 = filled_with(1, 33, 3),
                b2 = filled_with(1, 5, 4);
};
auto mlp(const weights& w, const matrix<float>& x) {
  return softmax(matmul(tanh(matmul(x, w.w1) + w.b1), w.w2) + w.b2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(merged_samples)

BOOST_AUTO_TEST_CASE(samples_become_rows_with_the_same_bits) {
  weights w;
  context where(1, target_isa());
  for (int samples : {2, 7, 64}) {
    std::vector<matrix<float>> x, alone;
    for (int i = 0; i < samples; ++i) {
      x.push_back(filled_with(1, 20, 10 + i));
      alone.push_back(evaluate(mlp(w, x.back()), where));
    }
    eval_plan plan(where);
    std::vector<handle<matrix<float>>> results;
    for (const auto& one : x) results.push_back(plan.add(mlp(w, one)));
    plan.run();
    for (int i = 0; i < samples; ++i)
      BOOST_TEST(same_bits(results[static_cast<std::size_t>(i)].value(), alone[static_cast<std::size_t>(i)]));
    BOOST_TEST(plan.counters().merged == (samples - 1) * 6);  // two products, two sums, tanh and softmax of each
  }
}

BOOST_AUTO_TEST_CASE(elementwise_functions_of_samples_are_one) {
  const weights w;
  context where(1, target_isa());
  const matrix<float> x = filled_with(1, 20, 10), y = filled_with(2, 20, 11);
  const auto check = [&](const char* name, const auto& f) {
    eval_plan plan(where);
    const auto a = plan.add(f(matmul(x, w.w1))), b = plan.add(f(matmul(y, w.w1)));
    plan.run();
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(same_bits(a.value(), evaluate(f(matmul(x, w.w1)), where)));
      BOOST_TEST(same_bits(b.value(), evaluate(f(matmul(y, w.w1)), where)));
      BOOST_TEST(plan.counters().merged == 2);  // the product and the function
    }
  };
#define CHECK(name, ...) check(#name, [](const auto& v) { return name(v); });
  ELEMENTWISE_FUNCTIONS(CHECK)
#undef CHECK
}

BOOST_AUTO_TEST_CASE(a_second_run_finds_the_plan_and_other_data) {
  weights w;
  context where(1, target_isa());
  for (int round = 0; round < 3; ++round) {
    eval_plan plan(where);
    std::vector<handle<matrix<float>>> results;
    std::vector<matrix<float>> x;
    for (int i = 0; i < 5; ++i) x.push_back(filled_with(1, 20, 100 * round + i));
    for (const auto& one : x) results.push_back(plan.add(mlp(w, one)));
    plan.run();
    for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(mlp(w, x[i]), where)));
  }
  // the same types, but one sample twice: another pattern of memory
  eval_plan plan(where);
  auto x = filled_with(1, 20, 5), y = filled_with(1, 20, 6);
  auto a = plan.add(mlp(w, x)), b = plan.add(mlp(w, x)), c = plan.add(mlp(w, y)), d = plan.add(mlp(w, y)),
       e = plan.add(mlp(w, x));
  plan.run();
  for (const auto* h : {&a, &b, &e}) BOOST_TEST(same_bits(h->value(), evaluate(mlp(w, x), where)));
  for (const auto* h : {&c, &d}) BOOST_TEST(same_bits(h->value(), evaluate(mlp(w, y), where)));
}

BOOST_AUTO_TEST_CASE(rows_of_several_and_different_lengths) {
  weights w;
  context where(1, target_isa());
  eval_plan plan(where);
  std::vector<matrix<float>> x;
  std::vector<handle<matrix<float>>> results;
  for (std::int64_t rows : {1, 3, 3, 1, 2}) x.push_back(filled_with(rows, 20, static_cast<int>(rows) + 20));
  for (const auto& one : x) results.push_back(plan.add(mlp(w, one)));
  plan.run();
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(mlp(w, x[i]), where)));
  BOOST_TEST(plan.counters().merged == 4 * 6);  // one operation each on all ten rows
}

// Samples with different numbers of rows: checks `f` of each x and returns the number of merged operations.
template <int Rank, class F> std::int64_t merged_ragged(const std::vector<shape>& shapes, F f) {
  context where(1, target_isa());
  std::int64_t merged = -1;
  for (int round = 0; round < 2; ++round) {  // a new plan, and a cached one
    eval_plan plan(where);
    std::vector<tensor_of_rank<float, Rank>> x;
    for (const auto& s : shapes) {
      x.push_back(tensor_of_rank<float, Rank>::uninitialized(s));
      const auto numbers = filled_with(1, s.size(), static_cast<int>(x.size()) + 10 * round);
      std::memcpy(x.back().writable().data(), numbers.data().data(), numbers.data().size() * sizeof(float));
    }
    std::vector<decltype(plan.add(f(x[0])))> results;
    for (const auto& one : x) results.push_back(plan.add(f(one)));
    plan.run();
    for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(f(x[i]), where)));
    merged = plan.counters().merged;
  }
  return merged;
}

// Operations after a product merge for samples with different numbers of rows as for equal numbers.
BOOST_AUTO_TEST_CASE(ragged_rows) {
  const auto w = filled_with(20, 6, 1), bias = filled_with(1, 6, 2), gain = filled_with(1, 6, 3);
  const std::vector<shape> rows{{3, 20}, {1, 20}, {4, 20}, {1, 20}, {2, 20}};
  const auto of = [&](auto f) { return merged_ragged<2>(rows, f); };
  BOOST_TEST(of([&](const auto& x) { return matmul(x, w); }) == 4);
  BOOST_TEST(of([&](const auto& x) { return tanh(matmul(x, w) * gain + bias); }) == 4 * 4);
  BOOST_TEST(of([&](const auto& x) {
               auto y = matmul(x, w);
               return y / reduce_sum(y, {.axes = 1, .keepdim = true});
             }) == 4 * 3);
  BOOST_TEST(of([&](const auto& x) { return log_softmax(matmul(x, w)); }) == 4 * 2);
  BOOST_TEST(of([&](const auto& x) { return layer_norm(matmul(x, w)); }) == 4 * 2);
  BOOST_TEST(of([&](const auto& x) { return slice(matmul(x, w), {.start = 1, .stop = 4, .axis = 1}); }) == 4 * 2);
  BOOST_TEST(of([&](const auto& x) { return concat<1>(matmul(x, w), tanh(matmul(x, w))); }) == 4 * 3);
  BOOST_TEST(of([&](const auto& x) { return reduce_max<axes(1)>(matmul(x, w)); }) == 4 * 2);
  BOOST_TEST(of([&](const auto& x) { return tanh(permute<1, 0>(tanh(matmul(x, w)))); }) == 4 * 4);
  BOOST_TEST(of([&](const auto& x) { return tanh(reshape(tanh(matmul(x, w)), {dyn, 2, 3})); }) == 4 * 4);
  BOOST_TEST(of([&](const auto& x) { return matmul(transpose(x), filled_with(x.extent(0), 3, 1)); }) ==
             0);  // the second operand differs per sample
  // operations across rows are not merged
  BOOST_TEST(of([&](const auto& x) { return softmax<0>(matmul(x, w)); }) == 4);
  BOOST_TEST(of([&](const auto& x) { return reduce_sum<axes(0)>(matmul(x, w)); }) == 4);
  BOOST_TEST(of([&](const auto& x) { return layer_norm(permute<1, 0>(matmul(x, w))); }) == 4 * 2);
  BOOST_TEST(of([&](const auto& x) { return slice(matmul(x, w), {.stop = 1}); }) == 4);
  // the rows of a product with a transposed operand are the operand's columns
  const auto u = filled_with(20, 5, 4);
  BOOST_TEST(merged_ragged<2>({{20, 2}, {20, 1}, {20, 3}},
                              [&](const auto& x) { return tanh(matmul(transpose(x), u)); }) == 2 * 2);
}

BOOST_AUTO_TEST_CASE(ragged_batches_of_pictures) {
  tensor_of_rank<float, 4> kernel(4, 2, 3, 3);
  for (float& v : kernel.writable()) v = static_cast<float>((&v - kernel.data().data()) % 7) / 5.f - 0.5f;
  const auto w = filled_with(4 * 3 * 3, 5, 3);
  BOOST_TEST(merged_ragged<4>({{2, 2, 8, 8}, {1, 2, 8, 8}, {5, 2, 8, 8}}, [&](const auto& x) {
               return softmax(matmul(flatten(max_pool2d(relu(conv2d(x, kernel)))), w));
             }) == 2 * 6);
}

// The iterations of scans differ, so these stay apart; the products before them merge.
BOOST_AUTO_TEST_CASE(sequences_of_different_lengths) {
  const auto w = filled_with(5, 7, 1);
  BOOST_TEST(merged_ragged<3>({{6, 1, 5}, {4, 1, 5}, {1, 1, 5}}, [&](const auto& x) { return tanh(matmul(x, w)); }) ==
             2 * 2);
  BOOST_TEST(merged_ragged<3>({{6, 1, 5}, {6, 1, 5}, {4, 1, 5}}, [&](const auto& x) { return tanh(matmul(x, w)); }) >=
             2);
}

// Biases and states of one row: the bias is shared by all samples, the state belongs to each.
BOOST_AUTO_TEST_CASE(operands_of_one_row) {
  context where(1, target_isa());
  const auto w = filled_with(6, 4, 1), bias = filled_with(1, 4, 2);
  for (std::int64_t rows : {1, 2}) {
    eval_plan plan(where);
    std::vector<matrix<float>> x, h;
    std::vector<handle<matrix<float>>> results;
    const auto f = [&](std::size_t i) {
      auto z = sigmoid(matmul(x[i], w) + bias);
      return z * h[i] + tanh(z) * h[i];
    };
    for (int i = 0; i < 6; ++i)
      x.push_back(filled_with(i % 2 ? 1 : rows, 6, i)), h.push_back(filled_with(i % 2 ? 1 : rows, 4, 20 + i));
    for (std::size_t i = 0; i < x.size(); ++i) results.push_back(plan.add(f(i)));
    plan.run();
    for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(f(i), where)));
    BOOST_TEST(plan.counters().merged >= 5 * 6);
  }
}

// Products with contiguous operands become one call on stacked operands.
BOOST_AUTO_TEST_CASE(products_of_operands_that_lie_together) {
  const auto wq = filled_with(20, 6, 1), wk = filled_with(20, 6, 2), wv = filled_with(20, 7, 3),
             left = filled_with(3, 4, 4);
  const auto attend = [&](const auto& x) {
    return matmul(softmax(matmul(matmul(x, wq), transpose(matmul(x, wk)))), matmul(x, wv));
  };
  // Three products, and the attention over their results.
  BOOST_TEST(merged_ragged<2>(std::vector<shape>(5, shape{4, 20}), attend) == 4 * 4);
  BOOST_TEST(merged_ragged<2>(std::vector<shape>(5, shape{1, 20}), attend) == 4 * 4);
  BOOST_TEST(merged_ragged<2>({{4, 20}, {3, 20}, {4, 20}}, attend) >= 2 * 3);  // products of other extents stay apart
  const auto between = [&](const auto& x) { return tanh(matmul(left, matmul(x, wq))); };  // one shared left-hand side
  BOOST_TEST(merged_ragged<2>(std::vector<shape>(5, shape{4, 20}), between) == 4 * 3);
  const auto column = filled_with(20, 1, 5);
  BOOST_TEST(merged_ragged<2>(std::vector<shape>(5, shape{4, 20}),
                              [&](const auto& x) { return tanh(matmul(left, matmul(x, column))); }) == 4 * 3);
}

// Keys shared by all samples cannot be stacked with per-sample queries.
BOOST_AUTO_TEST_CASE(attention_to_shared_keys) {
  const auto wq = filled_with(8, 8, 1), keys = filled_with(5, 8, 2), values = filled_with(5, 8, 3);
  BOOST_TEST(merged_ragged<2>(std::vector<shape>(4, shape{3, 8}),
                              [&](const auto& x) { return attention(matmul(x, wq), keys, values); }) == 3);
}

BOOST_AUTO_TEST_CASE(attention_of_samples) {
  const auto wq = filled_with(8, 8, 1), wk = filled_with(8, 8, 2), wv = filled_with(8, 8, 3);
  const auto heads = [](const auto& y) { return permute<0, 2, 1, 3>(reshape(y, {dyn, 3, 2, 4})); };
  const auto attend = [&](const auto& x) {
    return attention(heads(matmul(x, wq)), heads(matmul(x, wk)), heads(matmul(x, wv)));
  };
  BOOST_TEST(merged_ragged<3>({{1, 3, 8}, {2, 3, 8}, {1, 3, 8}}, attend) == 2 * 10);
}

BOOST_AUTO_TEST_CASE(loops_of_growing_shapes_fall_back) {
  context where(1, target_isa());
  eval_plan plan(where);
  dynamic<float, 2> sum = make_dynamic(filled_with(1, 3, 1));
  std::vector<handle<matrix<float>>> results;
  std::vector<matrix<float>> wanted;
  for (int i = 0; i < 4; ++i) {
    sum = make_dynamic(tanh(concat<0>(sum, filled_with(1, 3, i + 2))));
    results.push_back(plan.add(sum));
    wanted.push_back(evaluate(sum, where));
  }
  plan.run();
  for (std::size_t i = 0; i < wanted.size(); ++i) BOOST_TEST(same_bits(results[i].value(), wanted[i]));
  BOOST_TEST(plan.counters().merged == 0);
}

BOOST_AUTO_TEST_CASE(a_recurrent_step_of_many_samples) {
  context where(1, target_isa());
  auto w = filled_with(6, 12, 1), u = filled_with(4, 12, 2);
  auto step = [&](const matrix<float>& x, const matrix<float>& h) { return gru_gates(matmul(x, w), matmul(h, u), h); };
  std::vector<matrix<float>> h(8, filled_with(1, 4, 3)), alone = h;
  for (int t = 0; t < 3; ++t) {
    eval_plan plan(where);
    std::vector<handle<matrix<float>>> next;
    for (int i = 0; i < 8; ++i) {
      auto x = filled_with(1, 6, 50 + t * 8 + i);
      next.push_back(plan.add(step(x, h[static_cast<std::size_t>(i)])));
      alone[static_cast<std::size_t>(i)] = evaluate(step(x, alone[static_cast<std::size_t>(i)]), where);
    }
    plan.run();
    BOOST_TEST(plan.counters().merged > 0);
    for (std::size_t i = 0; i < 8; ++i) h[i] = next[i].value();
    for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(same_bits(h[i], alone[i]));
  }
}

// Number of operations merged away for three samples of f(x, y), where y is another matrix of the sample.
template <class F> std::int64_t merged_of_three(F f) {
  context where(1, target_isa());
  eval_plan plan(where);
  for (int i = 0; i < 3; ++i) plan.add(f(filled_with(6, 6, i), filled_with(6, 6, i + 7)));
  plan.run();
  return plan.counters().merged;
}

// The cases in docs/limits.md.
BOOST_AUTO_TEST_CASE(what_is_merged) {
  const auto w = filled_with(6, 6, 99);
  const auto of = [](auto f) { return merged_of_three(f); };
  BOOST_TEST(of([&](const auto& x, const auto&) { return matmul(x, w); }) == 2);
  BOOST_TEST(of([&](const auto& x, const auto& y) { return softmax(matmul(x, w)) + tanh(matmul(y, w)); }) > 4);
  BOOST_TEST(of([&](const auto& x, const auto& y) { return matmul(x, w) * y; }) == 4);  // one operand is contiguous
  BOOST_TEST(of([&](const auto& x, const auto&) { return cast<double>(matmul(x, w)); }) == 4);
  BOOST_TEST(of([&](const auto& x, const auto&) { return slice(matmul(x, w), {.start = 2, .stop = 4, .axis = 1}); }) ==
             4);
  // alone
  BOOST_TEST(of([&](const auto& x, const auto& y) { return tanh(x) * y; }) == 0);
  BOOST_TEST(of([&](const auto& x, const auto&) { return softmax(x); }) == 0);
  BOOST_TEST(of([&](const auto& x, const auto&) { return slice(x, {.start = 2, .stop = 4, .axis = 1}); }) == 0);
  BOOST_TEST(of([&](const auto& x, const auto& y) { return gru_gates(concat<1>(x, x, x), concat<1>(y, y, y), y); }) ==
             0);
  // other products
  BOOST_TEST(of([&](const auto& x, const auto&) { return matmul(transpose(x), w); }) == 2);
  BOOST_TEST(of([&](const auto& x, const auto&) { return matmul(unsqueeze<0>(x), w); }) == 2);
  BOOST_TEST(of([&](const auto& x, const auto& y) { return matmul(x, y); }) == 0);
  BOOST_TEST(of([&](const auto& x, const auto&) { return matmul(w, x); }) == 0);
  // after a product
  BOOST_TEST(of([&](const auto& x, const auto&) { return layer_norm(matmul(x, w)); }) == 4);
  BOOST_TEST(of([&](const auto& x, const auto&) { return reduce_sum<axes(1)>(matmul(x, w)); }) == 4);
  BOOST_TEST(of([&](const auto& x, const auto&) { return concat<1>(matmul(x, w), tanh(matmul(x, w))); }) == 6);
  BOOST_TEST(of([&](const auto& x, const auto& y) { return matmul(matmul(x, w), matmul(y, w)); }) == 5 + 2);
  BOOST_TEST(of([&](const auto& x, const auto&) { return matmul(w, matmul(x, w)); }) == 4);
}

BOOST_AUTO_TEST_CASE(pictures_of_one_each) {
  context where(1, target_isa());
  tensor_of_rank<float, 4> k1(6, 1, 5, 5), k2(8, 6, 3, 3);
  const auto fill = [](auto& t, int seed) {
    auto d = t.writable();
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = static_cast<float>((i * 2654435761u + static_cast<std::size_t>(seed)) % 1000u) / 500.f - 1.f;
  };
  fill(k1, 1), fill(k2, 2);
  const auto w = filled_with(8 * 3 * 3, 10, 3);
  const auto net = [&](const tensor_of_rank<float, 4>& x) {
    auto y = max_pool2d(relu(conv2d(max_pool2d(relu(conv2d(x, k1, {.padding = 2})), {.kernel_size = 2}), k2)),
                        {.kernel_size = 2});
    return log_softmax(matmul(flatten(y), w));
  };
  eval_plan plan(where);
  std::vector<tensor_of_rank<float, 4>> x;
  std::vector<handle<matrix<float>>> results;
  for (int i = 0; i < 9; ++i) fill(x.emplace_back(1, 1, 16, 16), 10 + i);
  for (const auto& one : x) results.push_back(plan.add(net(one)));
  plan.run();
  BOOST_TEST(plan.counters().merged == 8 * 9);
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(net(x[i]), where)));
}

// A column of one sample is contiguous, a column of several samples is not.
BOOST_AUTO_TEST_CASE(transposed_columns_keep_their_bits) {
  context where(1, target_isa());
  for (std::int64_t k : {2, 5, 64})
    for (std::int64_t m : {1, 2})
      for (std::int64_t n : {1, 2}) {
        const auto w = filled_with(k, n, 9);
        std::vector<matrix<float>> x;
        for (int i = 0; i < 4; ++i) x.push_back(filled_with(k, m, i));
        eval_plan plan(where);
        std::vector<handle<matrix<float>>> results;
        for (const auto& one : x) results.push_back(plan.add(matmul(transpose(one), w)));
        plan.run();
        for (std::size_t i = 0; i < x.size(); ++i)
          BOOST_TEST(same_bits(results[i].value(), evaluate(matmul(transpose(x[i]), w), where)));
      }
}

BOOST_AUTO_TEST_CASE(products_with_weights_of_their_own_are_one_stage) {
  std::vector<matrix<float>> x, w;
  for (int i = 0; i < 8; ++i) x.push_back(filled_with(9, 20, i)), w.push_back(filled_with(20, 7, 10 + i));
  for (int threads : {1, 2, 4}) {
    context where(threads, target_isa());
    eval_plan plan(where);
    std::vector<handle<matrix<float>>> results;
    for (std::size_t i = 0; i < x.size(); ++i) results.push_back(plan.add(tanh(matmul(x[i], w[i]))));
    plan.run();
    BOOST_TEST(plan.counters().merged == 0);
    BOOST_TEST(plan.cost().steps == 16u);
    BOOST_TEST(plan.cost().stages == (threads > 1 ? 2u : 16u));
    for (std::size_t i = 0; i < x.size(); ++i)
      BOOST_TEST(same_bits(results[i].value(), evaluate(tanh(matmul(x[i], w[i])), where)));
  }
}

// Sequences of one sample each through a layer: the last one has the same bits as alone.
template <auto& Layer, class Before>
std::int64_t merged_sequences(std::int64_t iterations, std::int64_t rows, std::int64_t features, Before before) {
  context where(1, target_isa());
  infer_layer<constant_layer<Layer>> layer("recurrent");
  init(layer, initializers(7));
  using sequences = tensor_of_rank<float, 3>;
  const auto of = [&](const sequences& x) { return layer.forward(dict("input"_key = before(x)))["output"_key]; };
  std::int64_t merged = -1;
  for (int round = 0; round < 2; ++round) {
    eval_plan plan(where);
    std::vector<sequences> x;
    for (int i = 0; i < 7; ++i) {
      x.emplace_back(iterations, rows, features);
      const auto numbers = filled_with(iterations * rows, features, 10 * round + i);
      std::memcpy(x.back().writable().data(), numbers.data().data(), numbers.data().size() * sizeof(float));
    }
    std::vector<decltype(plan.add(of(x[0])))> results;
    for (const auto& one : x) results.push_back(plan.add(of(one)));
    plan.run();
    for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(of(x[i]), where)));
    merged = plan.counters().merged;
  }
  return merged;
}
constexpr auto gru_layer = sequential(nn::gru{.input_size = 5, .hidden_size = 9});
constexpr auto lstm_layer = sequential(nn::lstm{.input_size = 5, .hidden_size = 9});
constexpr auto rnn_layer = sequential(nn::rnn{.input_size = 5, .hidden_size = 9});
constexpr auto two_layers =
    sequential(nn::gru{.input_size = 5, .hidden_size = 9}, nn::lstm{.input_size = 9, .hidden_size = 4},
               nn::linear{4, 3}, nn::log_softmax{});

// An iteration that reshapes a value unrelated to the samples.
struct flat_weight_step {
  static constexpr view<const label> inputs() { return port_names<"input", "previous_output">; }
  constexpr auto forward(auto& s, const auto& x, const auto& h) const {
    return tanh(matmul(h, reshape(s.parameter("w", shape{16}, initializer::uniform(-1, 1)), shape{4, 4})) + x);
  }
};
constexpr nn::recurrent<flat_weight_step> flat_weight{};

BOOST_AUTO_TEST_CASE(a_turn_that_reshapes_its_weight) {
  context where(1, target_isa());
  infer_layer<constant_layer<flat_weight>> layer("flat");
  init(layer, initializers(1));
  const auto of = [&](int i) {
    tensor_of_rank<float, 3> x(3, 1, 4);
    for (auto& v : x.writable()) v = static_cast<float>(i) + 0.5f;
    return layer.forward(dict("input"_key = x, "previous_output"_key = matrix<float>(1, 4)))["output"_key];
  };
  eval_plan plan(where);
  std::vector<decltype(plan.add(of(0)))> results;
  for (int i = 0; i < 3; ++i) results.push_back(plan.add(of(i)));
  plan.run();
  BOOST_TEST(plan.counters().merged == 2);
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(same_bits(results[static_cast<std::size_t>(i)].value(), evaluate(of(i), where)));
}

BOOST_AUTO_TEST_CASE(sequences_of_one_each) {
  const auto as_it_is = [](const auto& x) { return x; };
  BOOST_TEST(merged_sequences<gru_layer>(6, 1, 5, as_it_is) == 6 * 3);  // product, bias, scan
  BOOST_TEST(merged_sequences<rnn_layer>(6, 1, 5, as_it_is) == 6 * 3);
  BOOST_TEST(merged_sequences<lstm_layer>(6, 1, 5, as_it_is) == 6 * 3);
  BOOST_TEST(merged_sequences<gru_layer>(1, 1, 5, as_it_is) > 0);  // a scan of one iteration is unrolled
  BOOST_TEST(merged_sequences<two_layers>(6, 1, 5, as_it_is) == 6 * 9);
  BOOST_TEST(merged_sequences<gru_layer>(6, 3, 5, as_it_is) == 6 * 3);  // several rows in each
  BOOST_TEST(merged_sequences<gru_layer>(6, 1, 5, [](const auto& x) { return make_dynamic(tanh(x)); }) == 6 * 3);
}

// Different lengths, some of them equal; forward, backward and both.
template <auto& Layer> void sequences_with_lengths(std::int64_t merged) {
  context where(1, target_isa());
  infer_layer<constant_layer<Layer>> layer("recurrent");
  init(layer, initializers(3));
  std::vector<tensor_of_rank<float, 3>> x;
  std::vector<vector<std::int64_t>> lengths;
  for (int i = 0; i < 5; ++i) {
    const auto numbers = filled_with(6 * 2, 5, i);
    x.emplace_back(6, 2, 5);
    std::memcpy(x.back().writable().data(), numbers.data().data(), numbers.data().size() * sizeof(float));
    lengths.push_back({1 + i, 6});
  }
  const auto of = [&](std::size_t i) {
    return layer.forward(dict("input"_key = x[i], "lengths"_key = lengths[i]))["output"_key];
  };
  eval_plan plan(where);
  std::vector<decltype(plan.add(of(0)))> results;
  for (std::size_t i = 0; i < x.size(); ++i) results.push_back(plan.add(of(i)));
  plan.run();
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_TEST(same_bits(results[i].value(), evaluate(of(i), where)));
  BOOST_TEST(plan.counters().merged >= merged);
}
constexpr auto gru_with_lengths = nn::gru{.input_size = 5, .hidden_size = 4, .lengths = true};
constexpr auto lstm_with_lengths =
    nn::lstm{.input_size = 5, .hidden_size = 4, .num_layers = 2, .bidirectional = true, .lengths = true};

BOOST_AUTO_TEST_CASE(sequences_with_lengths_of_their_own) {
  sequences_with_lengths<gru_with_lengths>(4 * 3);
  sequences_with_lengths<lstm_with_lengths>(4 * 12);
}

// A scan whose iterations mix rows is not merged.
BOOST_AUTO_TEST_CASE(scans_that_mix_rows_stay_apart) {
  const auto run = [](bool mixes, bool merge) {
    auto body = std::make_shared<program>();
    auto h = body->input("h", {dtype::float32, {2, 4}}), x = body->input("x", {dtype::float32, {2, 4}}),
         w = body->input("w", {dtype::float32, {4, 4}});
    value next = tanh(matmul(h, w) + x);
    if (mixes) next = next + reduce_sum(next, {.axes = axes(0), .keepdim = true});
    body->output("h", next);
    body->output("y", next * 2);
    program p;
    auto weights = p.input("w", {dtype::float32, {4, 4}});
    std::vector<shape> extents{shape{4, 4}};
    for (int i = 0; i < 3; ++i) {
      auto start = p.input("start", {dtype::float32, {2, 4}}), xs = p.input("x", {dtype::float32, {3, 2, 4}});
      for (const auto& v : scan(body, {&start, 1}, {&xs, 1}, {&weights, 1})) p.output("y", v);
      extents.insert(extents.end(), {shape{2, 4}, shape{3, 2, 4}});
    }
    auto plan = make_plan(p, extents, target_isa(), {.merge = merge});
    executor e(plan, nullptr);
    std::vector<matrix<float>> in, out;
    for (std::size_t i = 0; i < extents.size(); ++i)
      in.push_back(filled_with(extents[i].size() / 4, 4, static_cast<int>(i)));
    for (const auto& t : plan->output_types()) out.emplace_back(t.dims.size() / 4, 4);
    for (std::size_t i = 0; i < in.size(); ++i) e.bind_input(i, in[i].data().data());
    for (std::size_t i = 0; i < out.size(); ++i) e.bind_output(i, out[i].writable().data());
    e.run();
    return std::pair(std::move(out), plan->counters().merged);
  };
  for (bool mixes : {false, true}) {
    const auto [apart, none] = run(mixes, false);
    const auto [together, merged] = run(mixes, true);
    BOOST_TEST(none == 0);
    BOOST_TEST(merged == (mixes ? 0 : 2));
    for (std::size_t i = 0; i < apart.size(); ++i) BOOST_TEST(same_bits(apart[i], together[i]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
