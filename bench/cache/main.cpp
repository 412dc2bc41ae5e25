// Plan cache (problem 16): cost of a cache hit, of hits by two threads at once, and of a net whose shapes change.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "arguments.h"
#include "measure.h"
#include "plan_cache.h"

namespace {

using namespace bench;
using work = void (*)(long count);
using clock_type = std::chrono::steady_clock;

double seconds(clock_type::duration d) { return std::chrono::duration<double>(d).count(); }

/// Calls per second of two threads together, each on its own core; 0 if they overlapped too little.
double rate_of_two(work run, long count, const std::array<int, 2>& cores) {
  std::array<clock_type::time_point, 2> begin, end;
  std::atomic<int> ready{0};
  const auto one = [&](std::size_t side) {
    pin(cores[side]);
    run(count / 16 + 1);
    ++ready;
    while (ready < 2) {}
    begin[side] = clock_type::now();
    run(count);
    end[side] = clock_type::now();
  };
  std::thread other(one, 1);
  one(0);
  other.join();
  pin(cores[0]);
  const double first = seconds(end[0] - begin[0]), second = seconds(end[1] - begin[1]);
  const double both = seconds(std::min(end[0], end[1]) - std::max(begin[0], begin[1]));
  if (both < 0.9 * std::max(first, second)) return 0;
  const double calls = static_cast<double>(count);
  return calls / first + calls / second;
}

double rate_of_one(work run, long count) {
  run(count / 16 + 1);
  const auto begin = clock_type::now();
  run(count);
  return static_cast<double>(count) / seconds(clock_type::now() - begin);
}

void probe(long count) {
  for (long i = 0; i < count; ++i) fma_probe();
}

/// Best rate of two threads divided by twice the best rate of one, for several kinds of work that are interleaved.
template <std::size_t N>
std::array<double, N> scaling(const std::array<work, N>& runs, const std::array<int, 2>& cores) {
  std::array<long, N> counts{};
  std::array<double, N> one{}, two{}, result{};
  for (std::size_t i = 0; i < N; ++i) {
    runs[i](1);
    const double rate = std::max(rate_of_one(runs[i], 10), rate_of_one(runs[i], 10));
    counts[i] = std::max(1L, static_cast<long>(rate * 1e-3));  // about a millisecond
  }
  for (int again = 0; again < repetitions(300); ++again)
    for (std::size_t i = 0; i < N; ++i) {
      one[i] = std::max(one[i], rate_of_one(runs[i], counts[i]));
      two[i] = std::max(two[i], rate_of_two(runs[i], counts[i], cores));
    }
  for (std::size_t i = 0; i < N; ++i) result[i] = two[i] / (2 * one[i]);
  return result;
}

row plan_cache_row(const std::string& shape, const char* unit) {
  row r;
  r.problem = "16 plan cache";
  r.shape = shape;
  r.unit = unit;
  return r;
}

row hit(const std::string& shape, work run) {
  row r = plan_cache_row(shape, "ns");
  r.floor = "ours <= 1000";
  r.goal = "ours <= 200";
  constexpr long calls = plan_cache::shapes;
  sampling often;
  often.pairs = 25;
  measure(r, [run] { run(calls); }, {}, 1e-9, often);
  for (auto* value : {&r.ours, &r.median, &r.probe}) *value = **value / static_cast<double>(calls);
  return r;
}

row share(const std::string& shape, double of_perfect, double probe_share, const char* floor) {
  row r = plan_cache_row(shape, "of 2x one thread");
  r.threads = 2;
  r.ours = of_perfect / probe_share;
  r.floor = floor;
  char note[100];
  std::snprintf(note, sizeof note, "%.3f, and %.3f of the FMA probe on the same cores", of_perfect, probe_share);
  r.note = note;
  return r;
}

/// Extra time of a run with another shape than the run before, in microseconds.
struct change {
  double met = 0, unmet = 0;  // shape seen before; shape seen for the first time
};
/// Takes the minimum over many rounds for each shape, because other load rarely hits the same shape in all rounds.
change change_of_shape() {
  const int makings = repetitions(5), rounds = repetitions(8);
  const auto timed = [](int i) {
    plan_cache::touch(i);
    const auto begin = clock_type::now();
    plan_cache::run(i);
    return 1e6 * seconds(clock_type::now() - begin);
  };
  std::vector<double> unmet(plan_cache::shapes, 1e9), met = unmet, same = unmet;
  const auto least = [](double& to, double x) { to = std::min(to, x); };
  for (int making = 0; making < makings; ++making) {
    plan_cache::begin();
    for (int round = 0; round <= rounds; ++round)
      for (int i = 0; i < plan_cache::shapes; ++i) {
        const auto at = static_cast<std::size_t>(i);
        least(round == 0 ? unmet[at] : met[at], timed(i));
        least(same[at], timed(i));
      }
  }
  change sum;
  for (std::size_t i = 0; i < plan_cache::shapes; ++i) {
    sum.met += (met[i] - same[i]) / plan_cache::shapes;
    sum.unmet += (unmet[i] - same[i]) / plan_cache::shapes;
  }
  return sum;
}

row changed(const std::string& shape, double microseconds) {
  row r = plan_cache_row("two convolutions, 400 shapes: " + shape, "us");
  r.problem = "16 changing shapes";  // a separate table with a peer
  r.ours = microseconds;
  r.peers = {measured_later("OpenVINO")};
  r.goal = "ratio >= 1.0";
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int> cores = usable_cores();
  const arguments a = parse(argc, argv);
  if (!plan_cache::answers_are_right()) {
    std::fprintf(stderr, "the cache gives wrong plans\n");
    return 1;
  }
  report all;
  all.add(hit("a hit by visit, 400 plans in turn", plan_cache::visit_all));
  all.add(hit("a hit that copies the shared pointer, 400 plans in turn", plan_cache::copy_all));
  all.add(hit("a hit by visit, one plan", plan_cache::visit_one));
  all.add(hit("a hit that copies the shared pointer, one plan", plan_cache::copy_one));
  const auto other = std::find_if(cores.begin(), cores.end(), [&](int core) { return core != a.core; });
  if (other == cores.end()) {
    std::printf("one core: rows of two threads are left out\n");
  } else {
    const std::array<work, 5> runs{probe, plan_cache::visit_all, plan_cache::visit_one, plan_cache::copy_all,
                                   plan_cache::copy_one};
    const auto of = scaling(runs, {a.core, *other});
    all.add(share("hits by visit, 400 plans in turn", of[1], of[0], "ours >= 0.9"));
    all.add(share("hits by visit, both the same plan", of[2], of[0], "ours >= 0.9"));
    all.add(share("hits that copy the shared pointer, 400 plans in turn", of[3], of[0], ""));
    all.add(share("hits that copy the shared pointer, both the same plan", of[4], of[0], ""));
  }
  const change c = change_of_shape();
  all.add(changed("what a change to one met before adds to a run", c.met));
  all.add(changed("what one not met before adds to a run", c.unmet));
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
