// Layers that are a single operation: their values against plain loops in double, and the gradients by all inputs and
// parameters against differences.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "run_layer.h"

using namespace lamina;
using namespace engine_test;

namespace {

using arrays = std::vector<array>;
using position = std::vector<std::size_t>;

array real(const shape& s, int seed, double low = -0.8, double high = 0.8) {
  return random_array(dtype::float64, s, seed, low, high);
}

position sizes(const shape& s) {
  position n;
  for (int i = 0; i < s.rank; ++i) n.push_back(static_cast<std::size_t>(s[i].code));
  return n;
}
std::size_t count(const position& n) {
  std::size_t c = 1;
  for (auto i : n) c *= i;
  return c;
}
// Every position of a shape, in order.
void each_place(const position& n, const std::function<void(const position&)>& f) {
  for (std::size_t at = 0, all = count(n); at < all; ++at) {
    position place(n.size());
    for (std::size_t k = n.size(), rest = at; k-- > 0; rest /= n[k]) place[k] = rest % n[k];
    f(place);
  }
}
// The element at a position of the result, where axes of size 1 and missing leading axes broadcast.
double read_at(const array& a, const position& place) {
  auto n = sizes(a.shape());
  std::size_t at = 0, skip = place.size() - n.size();
  for (std::size_t k = 0; k < n.size(); ++k) at = at * n[k] + (n[k] == 1 ? 0 : place[skip + k]);
  return a.values[at];
}
using written_out = std::function<double(const arrays& in, const position& place)>;

// Checks the values at every position of `result`, and the gradients.
template <class L>
void check(const L& layer, const arrays& in, const table& parameters, const shape& result, const written_out& f) {
  std::string name(detail::layer_kind(layer));
  for (const auto& a : in) name += " " + a.shape().string();
  BOOST_TEST_CONTEXT(name) {
    auto y = outcomes(layer, in, parameters)[0];
    BOOST_TEST(y.shape().string() == result.string());
    arrays all = in;
    for (const auto& [_, a] : parameters) all.push_back(a);
    std::size_t at = 0;
    each_place(sizes(result), [&](const position& place) {
      double wanted = f(all, place);
      if (at < y.values.size()) BOOST_TEST(std::abs(y.values[at] - wanted) < 1e-12 * std::max(1.0, std::abs(wanted)));
      ++at;
    });
    BOOST_TEST(at == y.values.size());
    check_layer(name, layer, in, parameters);
  }
}
const std::vector<shape> shapes{{}, {1}, {7}, {0}, {2, 3}, {3, 1, 4}, {2, 0, 3}};
struct pair_of_shapes {
  shape lhs, rhs, result;
};
const std::vector<pair_of_shapes> pairs{{{2, 3}, {2, 3}, {2, 3}},      {{2, 3}, {3}, {2, 3}}, {{2, 1}, {1, 4}, {2, 4}},
                                        {{0, 3}, {3}, {0, 3}},         {{1}, {1}, {1}},       {{}, {5}, {5}},
                                        {{2, 1, 3}, {4, 1}, {2, 4, 3}}};

template <class L> void of_one(const L& layer, double (*f)(double)) {
  for (const auto& s : shapes)
    check(layer, {distinct_array(s, 1)}, {}, s,
          [&](const arrays& in, const position& p) { return f(read_at(in[0], p)); });
}
template <class L> void of_two(const L& layer, double low, double (*f)(double, double)) {
  for (const auto& [lhs, rhs, result] : pairs) {
    // no two numbers within 0.01 of each other, and none within 0.01 of 0
    auto shifted = [&](array a) {
      for (auto& v : a.values) v = low + std::abs(v);
      return a;
    };
    array a = distinct_array(lhs, 1), b = distinct_array(rhs, 2, 0.01);
    if (low > 0) a = shifted(a);
    check(layer, {a, b}, {}, result,
          [&](const arrays& in, const position& p) { return f(read_at(in[0], p), read_at(in[1], p)); });
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(layer_values)

BOOST_AUTO_TEST_CASE(elementwise_of_one) {
  of_one(nn::exp{}, [](double x) { return std::exp(x); });
  of_one(nn::negative{}, [](double x) { return -x; });
  of_one(nn::sign{}, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; });
}

BOOST_AUTO_TEST_CASE(elementwise_of_two) {
  of_two(nn::maximum{}, 0, [](double x, double y) { return x > y ? x : y; });
  of_two(nn::minimum{}, 0, [](double x, double y) { return x < y ? x : y; });
  of_two(nn::pow{}, 0.5, [](double x, double y) { return std::pow(x, y); });
}

BOOST_AUTO_TEST_CASE(interpolation) {
  struct three {
    shape a, b, weight, result;
  };
  for (const auto& [a, b, weight, result] :
       {three{{2, 3}, {2, 3}, {2, 3}, {2, 3}}, three{{2, 3}, {3}, {}, {2, 3}}, three{{2, 1}, {1, 4}, {2, 4}, {2, 4}},
        three{{0, 3}, {3}, {1}, {0, 3}}, three{{1}, {1}, {1}, {1}}, three{{}, {5}, {1}, {5}}})
    check(nn::interpolate{}, {real(a, 1), real(b, 2), real(weight, 3, 0, 1)}, {}, result,
          [](const arrays& in, const position& p) {
            double w = read_at(in[2], p);
            return read_at(in[0], p) * w + read_at(in[1], p) * (1 - w);
          });
}

BOOST_AUTO_TEST_CASE(bias_and_weight) {
  struct two {
    shape x, bias;
  };
  for (const auto& [x, b] : {two{{2, 3}, {3}}, two{{1, 1}, {1}}, two{{0, 3}, {3}}, two{{2, 3, 4}, {3, 4}},
                             two{{2, 3, 4}, {3, 1}}, two{{5}, {5}}})
    check(nn::bias{b}, {real(x, 1)}, {{"bias", real(b, 2)}}, x,
          [](const arrays& in, const position& p) { return read_at(in[0], p) + read_at(in[1], p); });
  struct product {
    shape x;
    std::int64_t in, out;
    shape result;
  };
  for (const auto& [x, in, out, result] :
       {product{{2, 3}, 3, 4, {2, 4}}, product{{1, 1}, 1, 1, {1, 1}}, product{{0, 3}, 3, 2, {0, 2}},
        product{{2, 2, 3}, 3, 5, {2, 2, 5}}, product{{5, 1}, 1, 3, {5, 3}}, product{{1, 9}, 9, 1, {1, 1}}}) {
    check(nn::weight{in, out}, {real(x, 1)}, {{"weight", real({dim(in), dim(out)}, 2)}}, result,
          [k = in](const arrays& all, const position& p) {
            double sum = 0;
            auto of_x = p;
            for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
              of_x.back() = i;
              sum += read_at(all[0], of_x) * read_at(all[1], {i, p.back()});
            }
            return sum;
          });
    const table p{{"bias", real({dim(out)}, 3)}, {"weight", real({dim(out), dim(in)}, 2)}};
    check(nn::linear{in, out}, {real(x, 1)}, p, result, [k = in](const arrays& all, const position& place) {
      double sum = read_at(all[1], {place.back()});
      auto of_x = place;
      for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
        of_x.back() = i;
        sum += read_at(all[0], of_x) * read_at(all[2], {place.back(), i});
      }
      return sum;
    });
  }
}

BOOST_AUTO_TEST_CASE(permutations) {
  struct moved {
    shape x;
    axes order;
    shape result;
  };
  for (const auto& [x, order, result] :
       {moved{{2, 3, 4}, axes(2, 0, 1), {4, 2, 3}}, moved{{2, 3, 4}, axes(0, 2, 1), {2, 4, 3}},
        moved{{3, 2}, axes(1, 0), {2, 3}}, moved{{0, 3}, axes(1, 0), {3, 0}},
        moved{{1, 1, 5}, axes(2, 1, 0), {5, 1, 1}}, moved{{4}, axes(0), {4}}}) {
    const written_out f = [o = order](const arrays& in, const position& p) {
      position q(p.size());
      for (std::size_t k = 0; k < p.size(); ++k) q[static_cast<std::size_t>(o.values[k])] = p[k];
      return read_at(in[0], q);
    };
    check(nn::permute{order}, {real(x, 1)}, {}, result, f);
    if (order == axes(0, 2, 1) || order == axes(1, 0)) check(nn::transpose{}, {real(x, 1)}, {}, result, f);
  }
}

BOOST_AUTO_TEST_CASE(dot) {
  struct two {
    shape lhs, rhs, result;
  };
  for (const auto& [lhs, rhs, result] :
       {two{{2, 3}, {3, 4}, {2, 4}}, two{{1, 1}, {1, 1}, {1, 1}}, two{{0, 3}, {3, 2}, {0, 2}},
        two{{2, 0}, {0, 3}, {2, 3}}, two{{2, 2, 3}, {3, 4}, {2, 2, 4}}, two{{2, 2, 3}, {2, 3, 2}, {2, 2, 2}},
        two{{2, 1, 2, 3}, {3, 3, 1}, {2, 3, 2, 1}}}) {
    auto inner = sizes(lhs).back();
    check(nn::dot{}, {real(lhs, 1), real(rhs, 2)}, {}, result, [inner](const arrays& in, const position& p) {
      double sum = 0;
      auto a = p, b = p;
      for (std::size_t i = 0; i < inner; ++i) {
        a.back() = i;
        b[b.size() - 2] = i;
        sum += read_at(in[0], a) * read_at(in[1], b);
      }
      return sum;
    });
  }
}

BOOST_AUTO_TEST_CASE(sums) {
  struct sum_of {
    shape x;
    axes over;
    bool keepdim;
    shape result;
  };
  for (const auto& [x, over, keepdim, result] :
       {sum_of{{2, 3}, axes(0), false, {3}}, sum_of{{2, 3}, axes(1), true, {2, 1}},
        sum_of{{2, 3, 4}, axes(0, 2), false, {3}}, sum_of{{2, 3, 4}, axes(0, 2), true, {1, 3, 1}},
        sum_of{{2, 3}, axes{}, false, {}}, sum_of{{0, 3}, axes(0), false, {3}}, sum_of{{1}, axes(0), false, {}},
        sum_of{{3, 0, 2}, axes(2), false, {3, 0}}}) {
    auto n = sizes(x);
    std::vector<bool> summed(n.size(), over.count == 0);
    for (int k = 0; k < over.count; ++k) summed[static_cast<std::size_t>(over.values[k])] = true;
    check(nn::reduce_sum{over, keepdim}, {real(x, 1)}, {}, result,
          [&, keep = keepdim](const arrays& in, const position& p) {
            double total = 0;
            each_place(n, [&](const position& q) {
              bool here = true;
              for (std::size_t k = 0, of_p = 0; k < q.size(); ++k) {
                if (!summed[k]) here = here && q[k] == p[of_p++];
                else if (keep) ++of_p;
              }
              if (here) total += read_at(in[0], q);
            });
            return total;
          });
  }
}

BOOST_AUTO_TEST_CASE(moved_elements) {
  struct view_of {
    shape x, to, result;
  };
  for (const auto& [x, to, result] :
       {view_of{{2, 3}, {3, 2}, {3, 2}}, view_of{{2, 3}, {dyn}, {6}}, view_of{{}, {1, 1}, {1, 1}}, view_of{{1}, {}, {}},
        view_of{{0, 3}, {3, 0}, {3, 0}}, view_of{{2, 3, 4}, {4, dyn, 2}, {4, 3, 2}}}) {
    auto n = sizes(result);
    check(nn::reshape{to}, {real(x, 1)}, {}, result, [n](const arrays& in, const position& p) {
      std::size_t at = 0;
      for (std::size_t k = 0; k < n.size(); ++k) at = at * n[k] + p[k];
      return in[0].values[at];
    });
  }
  struct cut {
    shape x;
    nn::slice layer;
    shape result;
  };
  for (const auto& [x, layer, result] :
       {cut{{5}, {.start = 1, .stop = 4}, {3}}, cut{{5, 2}, {.start = 0, .stop = 5, .step = 2}, {3, 2}},
        cut{{2, 6}, {.start = 3, .axis = 1}, {2, 3}}, cut{{1, 4}, {.start = 0, .stop = 1}, {1, 4}},
        cut{{3, 2}, {.start = 1, .stop = 1}, {0, 2}}, cut{{0, 4}, {.start = 1, .stop = 3, .axis = 1}, {0, 2}}})
    check(layer, {real(x, 1)}, {}, result, [l = layer](const arrays& in, const position& p) {
      auto q = p;
      auto axis = static_cast<std::size_t>(l.axis);
      q[axis] = static_cast<std::size_t>(l.start) + p[axis] * static_cast<std::size_t>(l.step);
      return read_at(in[0], q);
    });
  struct tiles {
    shape x, repeats, result;
  };
  for (const auto& [x, repeats, result] :
       {tiles{{3}, {2}, {6}}, tiles{{2, 3}, {1, 2}, {2, 6}}, tiles{{1, 4}, {3, 1}, {3, 4}},
        tiles{{2, 1, 2}, {2, 3, 1}, {4, 3, 2}}, tiles{{0, 2}, {2, 2}, {0, 4}}, tiles{{1}, {1}, {1}}}) {
    auto n = sizes(x);
    check(nn::tile{repeats}, {real(x, 1)}, {}, result, [n](const arrays& in, const position& p) {
      auto q = p;
      for (std::size_t k = 0; k < q.size(); ++k) q[k] %= n[k];
      return read_at(in[0], q);
    });
  }
  struct joined {
    shape lhs, rhs;
    std::int64_t axis;
    shape result;
  };
  for (const auto& [lhs, rhs, axis, result] :
       {joined{{2}, {3}, 0, {5}}, joined{{2, 3}, {1, 3}, 0, {3, 3}}, joined{{2, 3}, {2, 2}, 1, {2, 5}},
        joined{{0, 3}, {2, 3}, 0, {2, 3}}, joined{{1, 1}, {1, 1}, 1, {1, 2}},
        joined{{2, 1, 2}, {2, 3, 2}, 1, {2, 4, 2}}}) {
    auto first = sizes(lhs)[static_cast<std::size_t>(axis)];
    check(nn::concat{axis}, {real(lhs, 1), real(rhs, 2)}, {}, result,
          [first, k = static_cast<std::size_t>(axis)](const arrays& in, const position& p) {
            // read_at() would broadcast an axis of size 1, so the index is within each operand
            if (p[k] < first) return read_at(in[0], p);
            auto q = p;
            q[k] -= first;
            return read_at(in[1], q);
          });
  }
}

// Layers that look up, sort or compare elements, on a few numbers.
BOOST_AUTO_TEST_CASE(chosen_elements) {
  using numbers = std::vector<double>;
  const auto gives = [](const auto& layer, const arrays& in, const std::vector<std::pair<shape, numbers>>& wanted) {
    BOOST_TEST_CONTEXT(detail::layer_kind(layer)) {
      const auto made = outcomes(layer, in, {});
      BOOST_REQUIRE(made.size() == wanted.size());
      for (std::size_t i = 0; i < made.size(); ++i) {
        BOOST_TEST(made[i].shape().string() == wanted[i].first.string());
        BOOST_TEST(made[i].values == wanted[i].second, boost::test_tools::per_element());
      }
    }
  };
  const auto ints = [](const shape& s, numbers n) { return array_of(dtype::int64, s, std::move(n)); };
  const auto truths = [](numbers n) { return array_of(dtype::boolean, {static_cast<std::int64_t>(n.size())}, n); };
  const array x = array_of(dtype::float64, {2, 3}, {5, 1, 3, 2, 6, 4}), a = array_of(dtype::float64, {3}, {1, 2, 3}),
              b = array_of(dtype::float64, {3}, {3, 2, 1});
  gives(nn::gather{.axis = 1}, {x, ints({2}, {2, 0})}, {{{2, 2}, {3, 5, 4, 2}}});
  gives(nn::take_along_axis{}, {x, ints({2, 1}, {1, 2})}, {{{2, 1}, {1, 4}}});
  gives(nn::scatter_add{}, {a, ints({4}, {0, 2, 0, 0}), array_of(dtype::float64, {4}, {10, 20, 30, 40})},
        {{{3}, {81, 2, 23}}});
  gives(nn::select{.axis = 1, .index = -1}, {x}, {{{2}, {3, 4}}});
  gives(nn::one_hot{.depth = 3, .element = dtype::float64}, {ints({2}, {2, 0})}, {{{2, 3}, {0, 0, 1, 1, 0, 0}}});
  gives(nn::cumsum{.exclusive = true}, {x}, {{{2, 3}, {0, 5, 6, 0, 2, 8}}});
  gives(nn::argmax{}, {x}, {{{2}, {0, 1}}});
  gives(nn::argmax{.axis = 0, .keepdim = true}, {x}, {{{1, 3}, {0, 1, 1}}});
  gives(nn::argsort{}, {x}, {{{2, 3}, {1, 2, 0, 0, 2, 1}}});
  gives(nn::sort{.descending = true}, {x}, {{{2, 3}, {5, 3, 1, 6, 4, 2}}});
  gives(nn::top_k{.k = 2}, {x}, {{{2, 2}, {5, 3, 6, 4}}, {{2, 2}, {0, 2, 1, 2}}});
  gives(nn::permute_inverse{axes(1, 0)}, {x}, {{{3, 2}, {5, 2, 1, 6, 3, 4}}});
  gives(nn::unsqueeze{axes(0)}, {a}, {{{1, 3}, {1, 2, 3}}});
  gives(nn::squeeze{axes(0)}, {array_of(dtype::float64, {1, 2}, {7, 8})}, {{{2}, {7, 8}}});
  gives(nn::repeat{.count = 2}, {a}, {{{6}, {1, 1, 2, 2, 3, 3}}});
  gives(nn::stack{.axis = 1}, {a, b}, {{{3, 2}, {1, 3, 2, 2, 3, 1}}});
  gives(nn::split{.parts = 3, .axis = 1}, {x}, {{{2, 1}, {5, 2}}, {{2, 1}, {1, 6}}, {{2, 1}, {3, 4}}});
  gives(nn::reduce_prod{axes(1)}, {x}, {{{2}, {15, 48}}});
  gives(nn::cast{dtype::int64}, {array_of(dtype::float64, {2}, {1.75, -2.5})}, {{{2}, {1, -2}}});
  gives(nn::equal{}, {a, b}, {{{3}, {0, 1, 0}}});
  gives(nn::not_equal{}, {a, b}, {{{3}, {1, 0, 1}}});
  gives(nn::less{}, {a, b}, {{{3}, {1, 0, 0}}});
  gives(nn::less_equal{}, {a, b}, {{{3}, {1, 1, 0}}});
  gives(nn::greater{}, {a, b}, {{{3}, {0, 0, 1}}});
  gives(nn::greater_equal{}, {a, b}, {{{3}, {0, 1, 1}}});
  gives(nn::where{}, {truths({1, 0, 1}), a, b}, {{{3}, {1, 2, 3}}});
  gives(nn::logical_and{}, {truths({1, 0, 1}), truths({1, 1, 0})}, {{{3}, {1, 0, 0}}});
  gives(nn::logical_or{}, {truths({1, 0, 0}), truths({1, 1, 0})}, {{{3}, {1, 1, 0}}});
  gives(nn::logical_not{}, {truths({1, 0})}, {{{2}, {0, 1}}});
  gives(nn::reduce_any{axes(0)}, {truths({0, 1})}, {{{}, {1}}});
  gives(nn::reduce_all{axes(0)}, {truths({0, 1})}, {{{}, {0}}});
  const auto turned = outcomes(nn::rope{.base = 10}, {array_of(dtype::float64, {1, 2}, {1, 0}), ints({1}, {2})}, {})[0];
  BOOST_TEST(std::abs(turned.values[0] - std::cos(2.)) < 1e-12);
  BOOST_TEST(std::abs(turned.values[1] - std::sin(2.)) < 1e-12);
}

BOOST_AUTO_TEST_CASE(step_of_an_rnn) {
  struct step {
    std::int64_t samples, in, hidden;
    bool bias, relu;
  };
  for (const auto& [n, i, h, bias, relu] :
       {step{2, 3, 4, true, false}, step{1, 1, 1, true, false}, step{0, 3, 2, true, false}, step{3, 1, 5, false, false},
        step{2, 3, 4, true, true}, step{1, 6, 2, false, true}}) {
    table p{{"weight_hh", real({dim(h), dim(h)}, 3)}, {"weight_ih", real({dim(h), dim(i)}, 4)}};
    if (bias) p.insert({{"bias_hh", real({dim(h)}, 5)}, {"bias_ih", real({dim(h)}, 6)}});
    check(nn::rnn_cell{i, h, bias, relu}, {real({dim(n), dim(i)}, 1), real({dim(n), dim(h)}, 2)}, p, {dim(n), dim(h)},
          [&, shifted = bias, cut = relu](const arrays& in, const position& place) {
            const auto sample = place[0], unit = place[1];
            double sum = shifted ? p.at("bias_ih").values[unit] + p.at("bias_hh").values[unit] : 0;
            for (std::size_t k = 0; k < sizes(in[0].shape())[1]; ++k)
              sum += read_at(in[0], {sample, k}) * read_at(p.at("weight_ih"), {unit, k});
            for (std::size_t k = 0; k < sizes(in[1].shape())[1]; ++k)
              sum += read_at(in[1], {sample, k}) * read_at(p.at("weight_hh"), {unit, k});
            return cut ? std::max(sum, 0.0) : std::tanh(sum);
          });
  }
}

BOOST_AUTO_TEST_CASE(tables_of_rows) {
  const array ids = array_of(dtype::int64, {4, 3}, {0, 2, 4, 2, 2, 2, 3, 2, 3, 1, 1, 0}), weight = real({5, 2}, 3);
  for (const std::int64_t padding : {-1, 2}) {
    check(nn::embedding{5, 2, padding}, {ids}, {{"weight", weight}}, {4, 3, 2},
          [&](const arrays& in, const position& p) {
            const double id = read_at(in[0], {p[0], p[1]});
            return id == static_cast<double>(padding) ? 0 : read_at(in[1], {static_cast<std::size_t>(id), p[2]});
          });
    for (const auto mode : {nn::bag_mode::mean, nn::bag_mode::sum, nn::bag_mode::max})
      check(nn::embedding_bag{5, 2, padding, mode}, {ids}, {{"weight", weight}}, {4, 2},
            [&](const arrays& in, const position& p) {
              double sum = 0, count = 0, max = -100;
              for (std::size_t k = 0; k < 3; ++k) {
                const double id = read_at(in[0], {p[0], k});
                if (id == static_cast<double>(padding)) continue;
                const double x = read_at(in[1], {static_cast<std::size_t>(id), p[1]});
                count += 1;
                sum += x;
                max = std::max(max, x);
              }
              if (count == 0) return 0.0;
              return mode == nn::bag_mode::max ? max : mode == nn::bag_mode::sum ? sum : sum / count;
            });
    check(nn::embedding_bag{5, 2, padding, nn::bag_mode::sum, true}, {ids, real({4, 3}, 4)}, {{"weight", weight}},
          {4, 2}, [&](const arrays& in, const position& p) {
            double sum = 0;
            for (std::size_t k = 0; k < 3; ++k) {
              const double id = read_at(in[0], {p[0], k});
              if (id != static_cast<double>(padding))
                sum += read_at(in[1], {p[0], k}) * read_at(in[2], {static_cast<std::size_t>(id), p[1]});
            }
            return sum;
          });
  }
}

// The attention weights against plain loops; the output is that of the layer without them.
BOOST_AUTO_TEST_CASE(weights_of_attention) {
  constexpr std::size_t samples = 2, queries = 3, keys = 4, heads = 2, depth = 2, features = heads * depth;
  const table p{{"in_proj_weight", real({12, 4}, 1)},
                {"in_proj_bias", real({12}, 2)},
                {"out_proj.weight", real({4, 4}, 3)},
                {"out_proj.bias", real({4}, 4)}};
  const auto projected = [&](const array& x, std::size_t n, std::size_t t, std::size_t row) {
    double sum = p.at("in_proj_bias").values[row];
    const auto rows = sizes(x.shape())[1];
    for (std::size_t k = 0; k < features; ++k)
      sum += p.at("in_proj_weight").values[row * features + k] * x.values[(n * rows + t) * features + k];
    return sum;
  };
  const auto wanted = [&](const array& q, const array& k, auto score_of_mask) {
    const std::size_t from = sizes(q.shape())[1], to = sizes(k.shape())[1];
    std::vector<double> all;
    for (std::size_t n = 0; n < samples; ++n)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < from; ++i) {
          std::vector<double> row(to);
          double sum = 0;
          for (std::size_t j = 0; j < to; ++j) {
            for (std::size_t d = 0; d < depth; ++d)
              row[j] += projected(q, n, i, h * depth + d) * projected(k, n, j, features + h * depth + d);
            row[j] = std::exp(row[j] / std::sqrt(double(depth)) + score_of_mask(i, j));
            sum += row[j];
          }
          for (double w : row) all.push_back(sum > 0 ? w / sum : 0);
        }
    return all;
  };
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    BOOST_TEST_REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(std::abs(a[i] - b[i]) < 1e-12);
  };
  constexpr double none = -std::numeric_limits<double>::infinity();
  const auto open = [](std::size_t, std::size_t) { return 0.0; };
  const array q = real({samples, queries, features}, 5), k = real({samples, keys, features}, 6),
              v = real({samples, keys, features}, 7);
  nn::multi_head_attention other{.embed_dim = features, .num_heads = heads};
  const auto compare = [&](auto layer, const arrays& in, const std::vector<double>& weights) {
    const auto plain = outcomes(layer, in, p);
    layer.weights = true;
    const auto both = outcomes(layer, in, p);
    BOOST_TEST_REQUIRE(both.size() == 2u);
    near(both[1].values, weights);
    near(both[0].values, plain[0].values);
    check_layer("attention with weights", layer, in, p);
  };
  compare(other, {q, k, v}, wanted(q, k, open));
  other.causal = true;
  compare(other, {q, k, v}, wanted(q, k, [&](std::size_t i, std::size_t j) { return j <= i + 1 ? 0 : none; }));
  other.causal = false, other.mask = true;
  // The second query is masked completely.
  const array seen = array_of(dtype::boolean, {3, 4}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1});
  compare(other, {q, k, v, seen},
          wanted(q, k, [&](std::size_t i, std::size_t j) { return seen.values[i * keys + j] != 0 ? 0 : none; }));
  const array added = real({3, 4}, 8);
  compare(other, {q, k, v, added},
          wanted(q, k, [&](std::size_t i, std::size_t j) { return added.values[i * keys + j]; }));
  nn::self_attention own{.embed_dim = features, .num_heads = heads, .causal = true};
  compare(own, {k}, wanted(k, k, [](std::size_t i, std::size_t j) { return j <= i ? 0 : none; }));
}

BOOST_AUTO_TEST_CASE(losses_as_layers) {
  const array x = real({3, 4}, 1), y = real({3, 4}, 2), labels = array_of(dtype::int64, {3}, {3, 0, 1});
  double squares = 0, distances = 0, entropy = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const double d = x.values[i] - y.values[i];
    squares += d * d / 12;
    distances += std::abs(d) / 12;
  }
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::size_t c = 0; c < 4; ++c) sum += std::exp(x.values[i * 4 + c]);
    entropy += (std::log(sum) - x.values[i * 4 + static_cast<std::size_t>(labels.values[i])]) / 3;
  }
  check(nn::mse_loss{}, {x, y}, {}, {}, [&](const arrays&, const position&) { return squares; });
  check(nn::l1_loss{}, {x, y}, {}, {}, [&](const arrays&, const position&) { return distances; });
  check(nn::cross_entropy_loss{}, {x, labels}, {}, {}, [&](const arrays&, const position&) { return entropy; });
}

BOOST_AUTO_TEST_SUITE_END()
