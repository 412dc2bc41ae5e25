// Independent axes declared by operations: one call on the positions of several samples gives the bits of separate
// calls.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

import lamina;

#include "graph.h"
#include "message.h"
#include "run_program.h"

#include "operation_examples.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// The samples of a call: the first has the example's extents, later ones have more positions along the axis.
struct samples {
  const operation& op;
  std::shared_ptr<const void> attributes;  // independent of the number of positions
  std::vector<int> in, out;
  std::vector<types> operands, results;

  // Adds a sample with `more` additional positions; false if the operation rejects it or maps its axes differently.
  bool add(const types& example, int axis, std::int64_t more, const std::shared_ptr<const void>& own) {
    types now = example;
    for (std::size_t k = 0; k < now.size() && !in.empty(); ++k)
      if (in[k] >= 0) now[k].dims[in[k]] = now[k].dims.at(in[k]) + more;
    inference found;
    op.infer(attributes ? attributes.get() : own.get(), now, found);
    if (!found.why.empty()) return false;
    const types made(found.results, found.results + found.count);
    for (const auto& r : made)
      if (r.dims.rank <= axis || r.dims.size() == 0) return false;
    axis_map m(axis, now, made);
    op.map_axis(own.get(), m);
    if (!m.independent || (!in.empty() && m.operands != in)) return false;
    in = m.operands, out = m.results, attributes = m.attributes ? m.attributes : own;
    operands.push_back(now), results.push_back(made);
    return true;
  }
};

// Whether one call has the bits of separate calls.
bool merged_alike(const samples& s) {
  std::vector<array> data;
  std::vector<std::vector<std::size_t>> where(s.operands.size());
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    for (std::size_t k = 0; k < s.in.size(); ++k)
      if (i > 0 && s.in[k] < 0) where[i].push_back(where[0][k]);
      else
        where[i].push_back(data.size()), data.push_back(random_array(s.operands[i][k].element, s.operands[i][k].dims,
                                                                     static_cast<int>(100 * i + k)));
  const auto all = results_of(
      data,
      [&](const std::vector<value>& v) {
        program& p = v[0].owner();
        const auto call = [&](const std::vector<value>& in) { return p.add(s.op, s.attributes, in); };
        std::vector<value> whole, outputs;
        for (std::size_t k = 0; k < s.in.size(); ++k) {
          std::vector<value> parts;
          for (const auto& w : where) parts.push_back(v[w[k]]);
          whole.push_back(s.in[k] < 0 ? parts[0] : value(apply_all<op::concat>({s.in[k]}, parts)));
        }
        const auto together = call(whole);
        std::vector<std::int64_t> first(s.out.size());
        for (std::size_t i = 0; i < where.size(); ++i) {
          std::vector<value> own;
          for (auto w : where[i]) own.push_back(v[w]);
          const auto alone = call(own);
          for (std::size_t r = 0; r < s.out.size(); ++r) {
            const auto count = s.results[i][r].dims.at(s.out[r]);
            const auto result = static_cast<std::int32_t>(r);
            outputs.push_back(value(&p, {alone.node, result}));
            outputs.push_back(slice(value(&p, {together.node, result}),
                                    {.start = first[r], .stop = first[r] + count, .axis = s.out[r]}));
            first[r] += count;
          }
        }
        return outputs;
      },
      no_passes);
  for (std::size_t i = 0; i < all.size(); i += 2)
    if (!same_bits(all[i], all[i + 1])) return false;
  return true;
}

// The examples of an operation, and others for operations whose examples have no independent axis.
std::vector<sample_call> calls_of(const operation& op) {
  static const std::vector<sample_call> more = {
      {"reduce_max", {f({2, 3, 4})}, {{"axes", list({1})}}},
      {"reduce_mean", {f({2, 3, 4})}, {{"axes", list({-1})}}},
      {"reduce_sum", {f({2, 3, 4})}, {{"axes", list({1, 2})}}},
      {"reshape", {f({2, 3, 4})}, {{"to", dims({2, 12})}}},
      {"reshape", {f({2, 3, 4})}, {{"to", dims({2, 3, 2, 2})}}},
      {"softmax", {f({2, 3, 4})}, {{"axis", integer(1)}}},
      {"slice", {f({2, 3, 4})}, {{"axis", integer(1)}, {"start", integer(1)}}},
      {"matmul", {f({2, 3, 4}), f({4, 5})}},
      {"matmul", {f({2, 3, 4}), f({2, 4, 5})}},
      {"layer_norm", {f({2, 3, 4}), f({3, 4})}},
      {"attention", {f({2, 1, 3, 4}), f({2, 1, 5, 4}), f({2, 1, 5, 3})}}};
  auto found = examples_of(op);
  for (const auto& e : more)
    if (e.name == op.name) found.push_back(e);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(axis_maps)

BOOST_AUTO_TEST_CASE(independent_positions_keep_their_bits) {
  std::set<std::string_view> seen;
  int ragged = 0;
  for (const operation* op : operations()) {
    if (!op->map_axis || op->subprograms > 0) continue;
    for (const auto& e : calls_of(*op))
      for (int axis = 0; axis < max_rank; ++axis) {
        const auto own = attributes_of(*op, e);
        samples s{*op, nullptr, {}, {}, {}, {}};
        if (!s.add(e.in, axis, 0, own)) continue;
        BOOST_REQUIRE(s.add(e.in, axis, 0, own));
        ragged += s.add(e.in, axis, 1, own) && s.add(e.in, axis, 17, own);
        const bool joins = std::any_of(s.in.begin(), s.in.end(), [](int k) { return k >= 0; });
        if (!joins) continue;  // operands of a single position, which all samples share
        seen.insert(op->name);
        BOOST_TEST(merged_alike(s), op->name << " along axis " << axis);
      }
  }
  for (auto name : {"matmul", "conv2d", "softmax", "layer_norm", "reduce_sum", "reshape", "permute", "gru_gates",
                    "max_pool2d", "add", "where", "cast"})
    BOOST_TEST(seen.contains(name), name << " is not independent along any axis of its example");
  BOOST_TEST(seen.size() > 60u);
  BOOST_TEST(ragged > 100);
}

BOOST_AUTO_TEST_SUITE_END()
