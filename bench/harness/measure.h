// Compares contenders: interleaved pairs of lamina and one peer, each pair between two FMA probes.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <vector>

#include "machine.h"
#include "quick.h"
#include "report.h"

namespace bench {

/// One call of the measured code.
using call = std::function<void()>;

struct sampling {
  int pairs = 15;                 // accepted pairs per peer; fewer if one call takes long
  double sample_seconds = 1e-3;   // a sample repeats the call for about this time
  double budget_seconds = 2.5;    // time limit per peer
  double probe_tolerance = 0.05;  // a pair counts only if its two probes differ by less
};

struct timing {
  double best = 0, median = 0;
};
struct pairing {
  timing ours, peer;
};
struct comparison {
  std::vector<pairing> pairs;  // one per peer
  double probe = 0;            // the fastest probe, seconds
  int rejected = 0;
  bool quiet = true;  // false: too few pairs were accepted, so all were used
};

inline double seconds_of(const call& run, long count) {
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < count; ++i) {
    run();
    __asm__ volatile("" ::: "memory");  // the compiler must keep the outputs
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(count);
}

/// Warms up and returns the number of calls per sample.
inline long calls_per_sample(const call& run, double sample_seconds) {
  run();
  const double once = std::min(seconds_of(run, 1), seconds_of(run, 1));
  return std::clamp(std::lround(sample_seconds / std::max(once, 1e-9)), 1L, 1000000L);
}

inline timing summary(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return {samples.front(), samples[samples.size() / 2]};
}

inline comparison compare(const call& ours, const std::vector<call>& peers, const sampling& asked = {}) {
  const sampling how =
      quick ? sampling{.pairs = 1, .sample_seconds = 0, .budget_seconds = 0, .probe_tolerance = 1e9} : asked;
  comparison result;
  result.probe = std::numeric_limits<double>::infinity();
  const long our_calls = calls_per_sample(ours, how.sample_seconds);
  const auto probe = [&result] {
    const double seconds = fma_probe();
    result.probe = std::min(result.probe, seconds);
    return seconds;
  };
  for (const call& peer : peers) {
    const long peer_calls = calls_per_sample(peer, how.sample_seconds);
    const double cost = seconds_of(ours, 1) * static_cast<double>(our_calls) +
                        seconds_of(peer, 1) * static_cast<double>(peer_calls) + 2 * fma_probe();
    const auto wanted = static_cast<std::size_t>(
        std::clamp(static_cast<int>(how.budget_seconds / cost), std::min(5, how.pairs), how.pairs));
    std::vector<double> accepted[2], all[2];
    for (std::size_t attempt = 0; attempt < 3 * wanted && accepted[0].size() < wanted; ++attempt) {
      double seconds[2];
      const double before = probe();
      for (const std::size_t side : {attempt % 2, 1 - attempt % 2})
        seconds[side] = side == 0 ? seconds_of(ours, our_calls) : seconds_of(peer, peer_calls);
      const double after = probe();
      const bool steady = std::fabs(before - after) <= how.probe_tolerance * std::min(before, after);
      for (const std::size_t side : {0u, 1u}) {
        all[side].push_back(seconds[side]);
        if (steady) accepted[side].push_back(seconds[side]);
      }
      if (!steady) ++result.rejected;
    }
    const bool enough = 3 * accepted[0].size() >= wanted;
    if (!enough) result.quiet = false;
    const std::vector<double>* use = enough ? accepted : all;
    result.pairs.push_back({summary(use[0]), summary(use[1])});
  }
  return result;
}

/// A contender; absent if `run` is empty.
struct contender {
  std::string name, version, isa;
  call run;
};

/// Measures lamina against the contenders that are present and fills the row, with times in `unit_seconds`. lamina's
/// time is from the pairs with the fastest peer, so that both sides of the ratio have the same number of samples.
inline void measure(row& r, const call& ours, const std::vector<contender>& peers, double unit_seconds,
                    const sampling& how = {}) {
  std::vector<call> present;
  for (const contender& p : peers)
    if (p.run) present.push_back(p.run);
  const bool alone = present.empty();
  if (alone) present.push_back(ours);
  const comparison c = compare(ours, present, how);
  const auto best = std::min_element(c.pairs.begin(), c.pairs.end(),
                                     [](const pairing& a, const pairing& b) { return a.peer.best < b.peer.best; });
  r.ours = best->ours.best / unit_seconds;
  r.median = best->ours.median / unit_seconds;
  r.probe = best->ours.best / c.probe;
  r.rejected = c.rejected;
  if (!c.quiet) r.note = "noisy: few pairs had steady probes";
  if (!alone) r.ratio = best->peer.best / best->ours.best;
  std::size_t next = 0;
  for (const contender& p : peers) {
    result out{p.name, p.version, p.isa, {}, {}};
    if (p.run) {
      out.value = c.pairs[next].peer.best / unit_seconds;
      out.median = c.pairs[next].peer.median / unit_seconds;
      ++next;
    }
    r.peers.push_back(std::move(out));
  }
  if (r.share)
    r.share = *r.share / best->ours.best / (fma_probe_flops / c.probe);  // the caller stored an operation count
}

/// The geometric means of rows of one problem: times, and the ratio of each row to its own best peer.
inline row geomean(const std::vector<row>& rows, const std::string& shape) {
  row mean = rows.front();
  mean.shape = shape;
  mean.note.clear();
  mean.rejected = 0;
  const auto over = [&rows](auto value) -> std::optional<double> {
    double sum = 0;
    for (const row& r : rows) {
      const std::optional<double> x = value(r);
      if (!x) return {};
      sum += std::log(*x);
    }
    return std::exp(sum / static_cast<double>(rows.size()));
  };
  mean.ours = over([](const row& r) { return r.ours; });
  mean.median = over([](const row& r) { return r.median; });
  mean.probe = over([](const row& r) { return r.probe; });
  mean.share = over([](const row& r) { return r.share; });
  mean.ratio = over([](const row& r) { return r.ratio; });
  for (std::size_t p = 0; p < mean.peers.size(); ++p) {
    mean.peers[p].value = over([p](const row& r) { return r.peers[p].value; });
    mean.peers[p].median = over([p](const row& r) { return r.peers[p].median; });
  }
  for (const row& r : rows) mean.rejected += r.rejected;
  return mean;
}

/// Prints a row as soon as it is measured.
inline void show(const row& r) {
  std::printf("%-34s %-34s ours %10.3f", title(r.problem).c_str(), r.shape.c_str(), r.ours.value_or(0));
  for (const result& p : r.peers) {
    if (p.value) std::printf("  %s %.3f", p.name.c_str(), *p.value);
    else if (!p.later) std::printf("  %s absent", p.name.c_str());
  }
  std::printf(" %s", r.unit.c_str());
  if (r.ratio) std::printf("  ratio %.3f", *r.ratio);
  if (r.share) std::printf("  %.0f %% of peak", 100 * *r.share);
  std::printf("%s%s\n", r.note.empty() ? "" : "  ", r.note.c_str());
  std::fflush(stdout);
}

}  // namespace bench
