// Optimizer slots sharded among threads that train one model: bits, memory, checkpoints.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"
#include "thread_replicas.h"

using namespace lamina;
using namespace nets_test;
using namespace replicas_test;

namespace {

const loss::cross_entropy by_entropy;

bool is_slot(const parameter& p) { return p.role() == state_role::optimizer && p.shape().rank > 0; }
std::size_t slot_bytes(const parameter_store& store) {
  std::size_t n = 0;
  for (const auto& p : store)
    if (is_slot(p) && p.has_elements()) n += p.value().bytes();
  return n;
}
// Whether states present in both processes have the same bits.
bool same_where_both(const parameter_store& a, const parameter_store& b) {
  if (a.size() != b.size()) return false;
  for (const auto& p : a) {
    const auto* other = b.find(p.name());
    if (!other || p.value().type() != other->value().type()) return false;
    if (!p.has_elements() || !other->has_elements()) continue;
    if (std::memcmp(p.value().data(), other->value().data(), p.value().bytes()) != 0) return false;
  }
  return true;
}
// The states of two checkpoints, without the epochs' numbers, which contain times.
bool same_states(const std::string& a, const std::string& b) {
  const auto one = read_safetensors(a), two = read_safetensors(b);
  if (one.tensors.size() != two.tensors.size() || one.metadata != two.metadata) return false;
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    const auto &x = one.tensors[i], &y = two.tensors[i];
    if (x.name != y.name || x.value.type() != y.value.type()) return false;
    if (x.name == "report.epochs") continue;
    if (std::memcmp(x.value.data(), y.value.data(), x.value.bytes()) != 0) return false;
  }
  return true;
}

// Sharded updates give the bits of a single process, and the gathered slots are its slots.
template <Optimizer O> void check_bits(const O& optimizer, const fit_options& options) {
  const auto data = squares(70, 1);
  fit_options one = options;
  one.shards = 8;
  regular_model alone({.seed = 1});
  fit(alone, data, by_entropy, optimizer, one);
  one.shard_optimizer = true;
  for (const int count : {1, 2, 4, 8}) {
    std::atomic<std::size_t> bytes = 0, max = 0;
    const auto nets =
        trained_by<regular_model>(optimizer, regular_model({.seed = 1}), count, data, one, nullptr, nullptr,
                                  [&](regular_model& net, thread_replicas& all) {
                                    const std::size_t own = slot_bytes(net.parameters());
                                    bytes += own;
                                    for (std::size_t now = max; own > now && !max.compare_exchange_weak(now, own);) {}
                                    if (!same_where_both(net.parameters(), alone.parameters()))
                                      throw std::runtime_error("parts have other bits");
                                    gather_slots(net.parameters(), all);
                                  });
    // Each slot is in exactly one process.
    BOOST_TEST(bytes == slot_bytes(alone.parameters()));
    if (count > 1 && bytes > 0) BOOST_TEST(max < bytes);
    for (const auto& n : nets) BOOST_TEST(same_bits(n.parameters(), alone.parameters()));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer_in_parts)

BOOST_AUTO_TEST_CASE(weights_have_the_same_bits) {
  const fit_options two{.epochs = 2, .batch = 16};
  check_bits(optim::adam{.lr = 0.01}, two);
  check_bits(optim::sgd{.lr = 0.01, .momentum = 0.9}, {.epochs = 2, .batch = 16, .bucket_bytes = 1});
  check_bits(optim::sgd{.lr = 0.01}, two);
  check_bits(optim::lamb{.lr = 0.01}, two);
  check_bits(optim::adafactor{}, two);
  check_bits(optim::muon{}, two);
  check_bits(optim::yellow_fin{.lr = 0.01}, two);
  check_bits(optim::averaged{.base = optim::adamw{}, .decay = 0.9}, two);
  check_bits(optim::adam{.lr = 0.01}, {.epochs = 2, .batch = 16, .accumulate = 3});
}
// Each update depends on the gradients of all parameters.
BOOST_AUTO_TEST_CASE(optimizers_that_see_all_gradients) {
  const fit_options two{.epochs = 2, .batch = 16};
  check_bits(optim::clipped{.base = optim::adam{.lr = 0.01}, .norm = 0.1, .together = true}, two);
  check_bits(optim::clipped{.base = optim::lamb{.lr = 0.01}, .norm = 0.1, .together = true}, two);
  check_bits(optim::sam{.base = optim::sgd{.lr = 0.01, .momentum = 0.9}}, two);
  check_bits(optim::sam{.base = optim::adam{.lr = 0.01}}, {.epochs = 2, .batch = 8, .accumulate = 2});
}

// A gradient is summed for its owner only, unless all processes need it.
BOOST_AUTO_TEST_CASE(sums_go_to_the_owner) {
  const auto data = squares(32, 1);
  const auto sums = [&](const auto& optimizer, bool shard) {
    std::atomic<int> all = 0, for_one = 0;
    fit_options options{.batch = 16, .shards = 4};
    options.shard_optimizer = shard;
    trained_by<regular_model>(
        optimizer, regular_model({.seed = 1}), 4, data, options, nullptr, nullptr,
        [&](regular_model&, thread_replicas& self) { all += self.begun(), for_one += self.begun_for_one(); });
    return std::pair(all / 8, for_one / 8);  // per step
  };
  const optim::adam adam{.lr = 0.01};
  const auto whole = sums(adam, false), parts = sums(adam, true);
  BOOST_TEST(whole.second == 0);
  BOOST_TEST(parts.second > 1);                 // gradients in parts
  BOOST_TEST(parts.first == parts.second + 2);  // running statistics; the loss with the hits
  BOOST_TEST((sums(optim::clipped{.base = adam, .norm = 1}, true) == parts));
  BOOST_TEST(sums(optim::clipped{.base = adam, .norm = 1, .together = true}, true).second == 0);
}

// Adam has two slots for each parameter: a process stores those of its part; parts are as even as the parameters allow.
BOOST_AUTO_TEST_CASE(slots_take_the_memory_of_a_part) {
  static constexpr auto even =
      sequential(nn::flatten{}, sublayer<"a">(nn::linear{.in_features = 36, .out_features = 36, .bias = false}),
                 nn::relu{}, sublayer<"b">(nn::linear{.in_features = 36, .out_features = 36, .bias = false}),
                 nn::relu{}, sublayer<"c">(nn::linear{.in_features = 36, .out_features = 36, .bias = false}),
                 nn::relu{}, sublayer<"d">(nn::linear{.in_features = 36, .out_features = 36, .bias = false}),
                 nn::relu{}, sublayer<"head">(nn::linear{.in_features = 36, .out_features = 3}));
  using even_model = model<even, input<"N", 1, 6, 6>>;
  constexpr std::size_t layer = 2 * 4 * 36 * 36, head = 2 * 4 * (36 * 3 + 3);
  for (const int count : {2, 4}) {
    fit_options options{.batch = 16};
    options.shard_optimizer = true;
    std::vector<std::size_t> bytes;
    std::mutex m;
    trained_by<even_model>(optim::adam{}, even_model({.seed = 1}), count, squares(32, 1), options, nullptr, nullptr,
                           [&](even_model& net, thread_replicas&) {
                             std::lock_guard lock(m);
                             bytes.push_back(slot_bytes(net.parameters()));
                           });
    BOOST_TEST(std::accumulate(bytes.begin(), bytes.end(), std::size_t(0)) == 4 * layer + head);
    for (const auto b : bytes) {
      const bool even_part =
          b == 4 / static_cast<std::size_t>(count) * layer || b == 4 / static_cast<std::size_t>(count) * layer + head;
      BOOST_TEST(even_part, b << " bytes in one of " << count);
    }
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_are_those_of_one_process) {
  const test_files::folder work;
  const auto data = squares(70, 1);
  const optim::adam adam{.lr = 0.01};
  fit_options options{.epochs = 3, .batch = 16, .shards = 8};
  options.checkpoint = work / "one";
  regular_model whole({.seed = 1});
  fit(whole, data, by_entropy, adam, options);
  // Stopped with four threads, resumed with two, eight and one, with different parts each time.
  options.shard_optimizer = true;
  options.resume = true;
  options.checkpoint = work / "parts";
  const auto stopped_after = [&](int last) {
    auto o = options;
    o.observer = [last, batches = 0](const training_progress& p) mutable { return p.epoch_ended || ++batches != last; };
    return o;
  };
  trained_by(adam, regular_model({.seed = 1}), 4, data, stopped_after(3));
  trained_by(adam, regular_model({.seed = 2}), 2, data, stopped_after(2));
  {
    regular_model once({.seed = 3});
    fit(once, data, by_entropy, adam, stopped_after(4));  // without replicas
  }
  const auto nets = trained_by(adam, regular_model({.seed = 4}), 8, data, options);
  for (const auto& n : nets) BOOST_TEST(same_where_both(n.parameters(), whole.parameters()));
  BOOST_TEST(same_states(work / "one", work / "parts"));
  // Files written by observers.
  options.resume = false;
  options.checkpoint.clear();
  options.observer = keep_checkpoints{.folder = work / "kept", .last = 3};
  trained_by(adam, regular_model({.seed = 1}), 4, data, options);
  BOOST_TEST(same_states(work / "one", work / "kept/epoch-0003.safetensors"));
}

BOOST_AUTO_TEST_CASE(training_goes_on_from_slots_in_parts) {
  const auto data = squares(70, 1);
  const optim::averaged optimizer{.base = optim::adamw{}, .decay = 0.9};
  fit_options options{.epochs = 2, .batch = 16, .shards = 8};
  regular_model alone({.seed = 1});
  for (int i = 0; i < 3; ++i) fit(alone, data, by_entropy, optimizer, options);
  swap_averages(alone.parameters());
  options.shard_optimizer = true;
  std::string why;
  const auto nets = trained_by<regular_model>(
      optimizer, regular_model({.seed = 1}), 2, data, options, &why, nullptr,
      [&](regular_model& net, thread_replicas& all) {
        auto again = options;
        again.replicas = std::shared_ptr<replicas>(&all, [](replicas*) {});
        fit(net, data, by_entropy, optimizer, again);
        // Functions that need all slots raise an error, and change nothing.
        const auto before = net;
        const std::string refused = error_of([&] { swap_averages(net.parameters()); });
        if (!holds(refused, "is in another process, after training with `shard_optimizer`; `gather_slots`"))
          throw std::runtime_error("swap_averages: " + refused);
        if (!same_where_both(before.parameters(), net.parameters())) throw std::runtime_error("it was changed");
        fit_options single{.epochs = 2, .batch = 16, .shards = 8};
        const std::string alone_refused = error_of([&] { fit(net, data, by_entropy, optimizer, single); });
        if (!holds(alone_refused, "`gather_slots` copies all slots")) throw std::runtime_error("fit: " + alone_refused);
        const std::string unsaved = error_of([&] { save_checkpoint(net.parameters(), {}, "/dev/null"); });
        if (!holds(unsaved, "is in another process")) throw std::runtime_error("save_checkpoint: " + unsaved);
        gather_slots(net.parameters(), all);
        again.shard_optimizer = false;
        fit(net, data, by_entropy, optimizer, again);
        swap_averages(net.parameters());
      });
  BOOST_TEST(why == "");
  for (const auto& n : nets) BOOST_TEST(same_bits(n.parameters(), alone.parameters()));
}

namespace {
// Each update reads the slot of the previous parameter.
struct gossip {
  double lr = 0.01;
  mutable std::shared_ptr<ir::value> last = std::make_shared<ir::value>();
  ir::value step(update_scope& s, const ir::value& w, const ir::value& g) const {
    const ir::value m = s.slot("momentum", w.type());
    s.assign(m, m * 0.9 + g);
    const ir::value by = last->empty() ? ir::value(reduce_sum(m)) : ir::value(reduce_sum(*last));
    *last = m;
    return w - s.rate(w) * by * g;
  }
  void prepare(joint_update&) const { *last = ir::value(); }
};
}  // namespace

BOOST_AUTO_TEST_CASE(what_cannot_be_in_parts_is_refused) {
  std::string why;
  fit_options options{.batch = 16};
  options.shard_optimizer = true;
  meeting all(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto o = options;
      o.replicas = std::make_shared<thread_replicas>(all, rank);
      plain_model net({.seed = 1});
      try {
        fit(net, squares(20, 1), by_entropy, gossip{}, o);
      } catch (const unsupported_error& e) {
        std::lock_guard lock(all.m);
        all.why = e.what();
      }
    });
  for (auto& t : threads) t.join();
  BOOST_TEST(holds(all.why, "gossip` updates parameter `"));
  BOOST_TEST(holds(all.why,
                   "with slots of another one, which `shard_optimizer` may keep in another process; "
                   "expected `.shard_optimizer = false`"));
}

BOOST_AUTO_TEST_SUITE_END()
