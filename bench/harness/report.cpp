// Writes rows as JSON; compiled once for all programs.
#include "report.h"

#include <utility>

#include "json.h"

namespace bench {
namespace {

nlohmann::json number(const std::optional<double>& x) { return x ? nlohmann::json(*x) : nlohmann::json(); }
nlohmann::json text(const std::string& x) { return x.empty() ? nlohmann::json() : nlohmann::json(x); }

}  // namespace

void report::write(const std::string& path) const {
  nlohmann::json all = nlohmann::json::array();
  for (const row& r : rows_) {
    nlohmann::json peers = nlohmann::json::array();
    for (const result& p : r.peers)
      peers.push_back({{"name", p.name},
                       {"version", p.value ? p.version : "absent"},
                       {"isa", text(p.isa)},
                       {"value", number(p.value)},
                       {"median", number(p.median)}});
    all.push_back({{"problem", r.problem},
                   {"shape", r.shape},
                   {"threads", r.threads},
                   {"isa", text(r.isa)},
                   {"unit", r.unit},
                   {"ours", number(r.ours)},
                   {"peers", std::move(peers)},
                   {"ratio", number(r.ratio)},
                   {"floor", text(r.floor)},
                   {"goal", text(r.goal)},
                   {"details",
                    {{"median", number(r.median)},
                     {"probe_times", number(r.probe)},
                     {"share_of_fma_peak", number(r.share)},
                     {"rejected_pairs", r.rejected},
                     {"note", text(r.note)}}}});
  }
  write_json(path, all);
}

}  // namespace bench
