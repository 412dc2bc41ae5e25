// Rows of a report: what was measured, in the form that the driver merges into bench/report/results.json.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A contender's result; without a value the contender is absent, unless the driver measures it and adds the value.
struct result {
  std::string name, version, isa;
  std::optional<double> value, median;
  bool later = false;
};
/// A peer that the driver measures after this program, so that it is not absent yet.
inline result measured_later(const char* name) {
  result r;
  r.name = name;
  r.later = true;
  return r;
}

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

/// A problem as it is shown, name first: "1 sgemm avx512" is "sgemm avx512 (problem 1)".
inline std::string title(const std::string& problem) {
  const auto space = problem.find(' ');
  return problem.substr(space + 1) + " (problem " + problem.substr(0, space) + ")";
}

/// The rows of one program.
class report {
 public:
  void add(row r) { rows_.push_back(std::move(r)); }
  const std::vector<row>& rows() const { return rows_; }

  /// Writes them as JSON; leaves with status 2 where that is not possible.
  void write(const std::string& path) const;

 private:
  std::vector<row> rows_;
};

}  // namespace bench
