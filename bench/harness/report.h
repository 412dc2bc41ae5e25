// Rows of measurements, in the format that the driver merges into bench/report/results.json.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// A contender's result. Without a value the contender is absent, unless the driver measures it and adds the value.
struct result {
  std::string name, version, isa;
  std::optional<double> value, median;
  bool later = false;
};
/// Result of a peer that the driver measures after this program, so it does not count as absent.
inline result measured_later(const char* name) {
  result r;
  r.name = name;
  r.later = true;
  return r;
}

/// One line of the report.  `ratio` > 1: lamina is better.  `floor` and `goal` are conditions that a program can check:
/// "ratio >= 0.97", "ours <= 0.10".  The members after `goal` become the row's `details`.
struct row {
  std::string problem, shape;
  int threads = 1;
  std::string isa, unit;
  std::optional<double> ours;
  std::vector<result> peers;
  std::optional<double> ratio;
  std::string floor, goal;
  std::optional<double> median, probe, share;  // lamina's median; its time / probe time; share of FMA peak
  int rejected = 0;                            // pairs rejected because their probes differed
  std::string note;
};

/// Display name of a problem: "1 sgemm avx512" becomes "sgemm avx512 (problem 1)".
inline std::string title(const std::string& problem) {
  const auto space = problem.find(' ');
  return problem.substr(space + 1) + " (problem " + problem.substr(0, space) + ")";
}

/// The rows of one program.
class report {
 public:
  void add(row r) { rows_.push_back(std::move(r)); }
  const std::vector<row>& rows() const { return rows_; }

  /// Writes the rows as JSON; exits with status 2 on failure.
  void write(const std::string& path) const;

 private:
  std::vector<row> rows_;
};

}  // namespace bench
