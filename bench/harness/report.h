// Rows of a report: what was measured, in the form that the driver merges into bench/report/results.json.
#pragma once
#include <nlohmann/json.hpp>

#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Writes a JSON value to a file; leaves with status 2 where that is not possible.
inline void write_json(const std::string& path, const nlohmann::json& value) {
  std::ofstream file(path);
  file << value.dump(1) << '\n';
  file.close();
  if (!file) {
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::exit(2);
  }
}

/// A contender's result; without a value the contender is absent.
struct result {
  std::string name, version, isa;
  std::optional<double> value, median;
};

/// One line of the report.  `ratio` > 1: ours is better.  `floor` and `goal` are sentences that a program can check:
/// "ratio >= 0.97", "ours <= 0.10".  What follows them stays in the details, beside the report.
struct row {
  std::string problem, shape;
  int threads = 1;
  std::string isa, unit;
  std::optional<double> ours;
  std::vector<result> peers;
  std::optional<double> ratio;
  std::string floor, goal;
  std::optional<double> median, probe, share;  // our median; our time in times of the probe; share of the FMA peak
  int rejected = 0;                            // pairs whose probes differed
  std::string note;
};

inline nlohmann::json number(const std::optional<double>& x) { return x ? nlohmann::json(*x) : nlohmann::json(); }
inline nlohmann::json text(const std::string& x) { return x.empty() ? nlohmann::json() : nlohmann::json(x); }

/// The rows of one program.
class report {
 public:
  void add(row r) { rows_.push_back(std::move(r)); }
  const std::vector<row>& rows() const { return rows_; }

  void write(const std::string& path) const {
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

 private:
  std::vector<row> rows_;
};

}  // namespace bench
