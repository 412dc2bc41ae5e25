module lamina:data.csv.impl;
import :core;
import :data.set;
import :data.table;
import :dtype;
import :io;
import :io.file.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// A field of a row, without its quotes or, if unquoted, trimmed.
struct cell {
  std::string_view text;
  bool quoted = false;
};

// The fields of a file, row by row.
struct csv_cells {
  std::size_t columns = 0;
  std::vector<cell> cells;
  std::vector<std::int64_t> lines;  // line on which each row begins
  std::deque<std::string> unescaped;

  std::size_t rows() const { return lines.size(); }
  const cell& at(std::size_t row, std::size_t column) const { return cells[row * columns + column]; }
};

std::string at_line(const std::string& file, std::int64_t line, std::string_view what) {
  text t;
  return (t << file << ":" << line << ": " << what).string();
}
[[noreturn]] void line_failure(const std::string& file, std::int64_t line, std::string_view what) {
  detail::raise(error_kind::file, at_line(file, line, what));
}

/// Number of skipped rows, and the reasons for the first ones.
struct rows_left_out {
  static constexpr std::int64_t max_reasons = 100;
  std::int64_t count = 0;
  std::vector<std::string> why;
  void add(const std::string& what) {
    if (count++ < max_reasons) why.push_back(what);
  }
};

bool is_space(char c) { return c == ' ' || c == '\t'; }
std::string_view trimmed(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

/// Splits text into fields.
class csv_scanner {
 public:
  /// Rows whose number of fields differs from the first row are added to `left_out`, or are an error if it is null.
  csv_scanner(std::string_view source, const std::string& file, char separator, rows_left_out* left_out)
      : text_(source), file_(file), separator_(separator), left_out_(left_out) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  csv_cells all() {
    csv_cells c;
    while (at_ < text_.size()) {
      if (ends_line()) {  // an empty line
        next_line();
        continue;
      }
      const std::int64_t line = line_;
      const std::size_t first = c.cells.size();
      c.cells.push_back(field(c));
      while (at_ < text_.size() && text_[at_] == separator_) {
        ++at_;
        c.cells.push_back(field(c));
      }
      if (at_ < text_.size()) next_line();
      const std::size_t found = c.cells.size() - first;
      if (c.lines.empty()) c.columns = found;
      if (found != c.columns) {
        text t;
        t << "the row has " << found << (found == 1 ? " field" : " fields") << "; expected " << c.columns
          << ", as in the first row";
        if (!left_out_) line_failure(file_, line, t.view());
        left_out_->add(at_line(file_, line, t.view()));
        c.cells.resize(first);
        continue;
      }
      c.lines.push_back(line);
    }
    return c;
  }

 private:
  bool ends_line() const {
    return text_[at_] == '\n' || (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ||
           (text_[at_] == '\r' && at_ + 1 == text_.size());
  }
  void next_line() {
    at_ += text_[at_] == '\r' && at_ + 1 < text_.size() ? 2 : 1;
    ++line_;
  }
  cell field(csv_cells& c) {
    std::size_t begin = at_;
    while (begin < text_.size() && is_space(text_[begin]) && text_[begin] != separator_) ++begin;
    if (begin < text_.size() && text_[begin] == '"') {
      at_ = begin;
      return quoted(c);
    }
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && !ends_line()) ++at_;
    return {trimmed(text_.substr(first, at_ - first)), false};
  }
  cell quoted(csv_cells& c) {
    const std::int64_t line = line_;
    const std::size_t first = ++at_;
    bool doubled = false;
    for (;; ++at_) {
      if (at_ >= text_.size()) line_failure(file_, line, "the quote that begins a field is not closed");
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') continue;
      if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        doubled = true;
        ++at_;
      } else break;
    }
    std::string_view inside = text_.substr(first, at_ - first);
    ++at_;
    while (at_ < text_.size() && is_space(text_[at_]) && text_[at_] != separator_) ++at_;
    if (at_ < text_.size() && text_[at_] != separator_ && !ends_line())
      line_failure(file_, line_, "expected a separator or the end of the line after a quoted field");
    if (doubled) {
      std::string& plain = c.unescaped.emplace_back();
      for (std::size_t i = 0; i < inside.size(); ++i) {
        plain += inside[i];
        if (inside[i] == '"') ++i;
      }
      inside = plain;
    }
    return {inside, true};
  }

  std::string_view text_;
  const std::string& file_;
  char separator_;
  rows_left_out* left_out_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

bool is_missing(const cell& c, bool number) {
  if (c.text.empty()) return true;
  if (!number || c.quoted) return false;
  for (std::string_view word : {"NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "?"})
    if (c.text == word) return true;
  return false;
}
std::optional<double> number_of(const cell& c) {
  std::string_view s = trimmed(c.text);
  if (s.size() > 1 && s[0] == '+' && s[1] != '-') s.remove_prefix(1);
  return number_in(s);
}

/// A column and its position in the file.
struct column : csv_column {
  std::size_t place = 0;  // position in the file
  bool mostly_numbers = false;
  std::vector<std::string> words;
  std::map<std::string, std::int64_t, std::less<>> number_of_word;
  bool words_given = false;

  void give_words(const std::vector<std::string>& all) {
    words_given = true;
    for (const auto& word : all)
      if (number_of_word.emplace(word, static_cast<std::int64_t>(words.size())).second) words.push_back(word);
  }
  bool is_number() const { return kind == column_kind::number; }
  // Field of a sample: numbers, integers, the targets of both.
  int group() const { return (target ? 2 : 0) + (is_number() ? 0 : 1); }
};

/// Builds a table from the fields of a file.
class table_builder {
 public:
  table_builder(csv_cells cells, const std::string& file, const csv_options& o, rows_left_out left_out)
      : cells_(std::move(cells)),
        file_(file),
        options_(o),
        missing_(o.missing ? *o.missing
                 : o.like  ? o.like->missing
                           : missing_rule::error),
        missing_number_(o.missing || !o.like ? o.missing_number : o.like->missing_number),
        classes_(o.like ? o.like->classes : o.classes),
        left_out_(std::move(left_out)) {}

  csv_table build() {
    name_columns();
    if (options_.like) choose_columns(*options_.like);
    else choose_columns();
    for (std::size_t c = 0; c < columns_.size(); ++c) infer(c);
    choose_rows();
    for (std::size_t c = 0; c < columns_.size(); ++c) average(c);
    return filled();
  }

 private:
  const cell& at(std::size_t row, std::size_t c) const { return cells_.at(row, columns_[c].place); }
  [[noreturn]] void none_left(std::string_view why) const {
    if (left_out_.count == 0) detail::file_failure(file_, why);
    text t;
    t << "expected at least one valid row; got " << left_out_.count
      << (left_out_.count == 1 ? " skipped row" : " skipped rows") << ", the first: " << left_out_.why[0];
    detail::file_failure(file_, t.view());
  }
  [[noreturn]] void cell_failure(std::size_t row, std::size_t c, std::string_view what) const {
    detail::raise(error_kind::file, in_cell(row, c, what));
  }
  std::string in_cell(std::size_t row, std::size_t c, std::string_view what) const {
    text t;
    t << "column `" << printable(columns_[c].name) << "`: " << what;
    return at_line(file_, cells_.lines[row], t.view());
  }
  void name_columns() {
    first_ = options_.header ? 1 : 0;
    if (cells_.rows() <= first_) none_left(options_.header ? "it has no row after its header" : "it has no row");
    columns_.resize(cells_.columns);
    std::set<std::string> seen;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      columns_[c].place = c;
      columns_[c].kind = column_kind::inferred;
      columns_[c].name = options_.header ? std::string(cells_.at(0, c).text) : std::to_string(c);
      if (seen.insert(columns_[c].name).second) continue;
      cell_failure(0, c, "the header has two columns of this name");
    }
  }
  column& named(const std::string& name, std::string_view option) {
    std::vector<std::string_view> known;
    for (auto& c : columns_) {
      if (c.name == name) return c;
      known.push_back(c.name);
    }
    text t;
    t << file_ << ": " << option << " names a column `" << printable(name) << "`, which does not exist";
    suggest_names(t, name, known);
    detail::raise(error_kind::value, t);
  }
  void choose_columns() {
    for (const auto& name : options_.targets) named(name, "`targets`").target = true;
    for (const auto& [name, kind] : options_.kinds) named(name, "`kinds`").kind = kind;
    for (const auto& [name, words] : options_.words) {
      column& c = named(name, "`words`");
      if (c.kind == column_kind::inferred) c.kind = column_kind::category;
      c.give_words(words);
    }
  }
  // Selects the columns of an earlier table, in its order.
  void choose_columns(const csv_schema& like) {
    std::vector<column> chosen;
    std::size_t targets = 0, found_targets = 0;
    std::vector<std::string_view> known;
    for (const auto& c : columns_) known.push_back(c.name);
    for (const auto& c : like.columns) {
      if (c.kind == column_kind::ignored) continue;
      targets += c.target;
      const auto found = std::find(known.begin(), known.end(), c.name);
      if (found == known.end()) {
        if (c.target && found_targets == 0) continue;
        text t;
        t << "there is no column `" << printable(c.name) << "`, which the table of `like` has";
        suggest_names(t, c.name, known);
        detail::file_failure(file_, t.view());
      }
      if (c.target && found_targets + 1 != targets)
        detail::file_failure(file_, "it has some of the targets of `like`; expected all or none");
      found_targets += c.target;
      column& made = chosen.emplace_back();
      made.name = c.name;
      made.kind = c.kind;
      made.target = c.target;
      made.mean = c.mean;
      made.place = static_cast<std::size_t>(found - known.begin());
      if (const auto words = like.words.find(c.name); c.kind == column_kind::category && words != like.words.end())
        made.give_words(words->second);
    }
    columns_ = std::move(chosen);
  }
  void infer(std::size_t c) {
    if (columns_[c].kind != column_kind::inferred) return;
    std::size_t numbers = 0, all = 0;
    for (std::size_t r = first_; r < cells_.rows(); ++r) {
      const cell& x = at(r, c);
      if (is_missing(x, true)) continue;
      ++all;
      numbers += number_of(x).has_value();
    }
    columns_[c].mostly_numbers = numbers > 0 && numbers < all && numbers > all / 2;
    columns_[c].kind = numbers == all || columns_[c].mostly_numbers ? column_kind::number : column_kind::category;
  }
  // Whether a value is missing and the rule has no substitute. An empty word counts as a word unless rows are skipped.
  bool lacks(std::size_t row, std::size_t c) const {
    const column& of = columns_[c];
    if (of.kind == column_kind::ignored || !is_missing(at(row, c), of.kind != column_kind::category)) return false;
    if (of.kind == column_kind::category && missing_ != missing_rule::error) return missing_ == missing_rule::skip;
    if (of.is_number() && (missing_ == missing_rule::mean || missing_ == missing_rule::number)) return false;
    return true;
  }
  void choose_rows() {
    const bool skips = options_.on_error == sample_failure::skip;
    for (std::size_t r = first_; r < cells_.rows(); ++r) {
      if (const auto c = first_lacking(r); c < columns_.size()) {
        if (missing_ != missing_rule::skip && !skips)
          cell_failure(r, c, "the value is missing; {.missing = missing_rule::skip} skips such rows");
        left_out_.add(in_cell(r, c, "the value is missing"));
        continue;
      }
      if (skips) try {
          for (std::size_t c = 0; c < columns_.size(); ++c) check(r, c);
        } catch (const file_error& why) {
          left_out_.add(why.what());
          continue;
        }
      kept_.push_back(r);
    }
    if (kept_.empty()) none_left({});
  }
  std::size_t first_lacking(std::size_t row) const {
    std::size_t c = 0;
    while (c < columns_.size() && !lacks(row, c)) ++c;
    return c;
  }
  // Raises the error that filling a row would raise for a value.
  void check(std::size_t row, std::size_t c) const {
    const column& of = columns_[c];
    if (of.is_number()) value_at(row, c);
    else if (of.kind == column_kind::integer) integer_at(row, c);
    else if (of.kind == column_kind::category && of.words_given) known_word(row, c);
  }
  double number_at(std::size_t row, std::size_t c) const {
    const cell& x = at(row, c);
    const auto n = number_of(x);
    text t;
    t << "`" << printable(x.text, 40) << "` is not a ";
    if (!n) {
      t << "number";
      if (columns_[c].mostly_numbers)
        t << "; expected one, as in most rows, or {.kinds = {{\"" << printable(columns_[c].name)
          << "\", column_kind::category}}}";
      cell_failure(row, c, t.view());
    }
    if (columns_[c].is_number() && !(std::abs(*n) <= static_cast<double>(std::numeric_limits<float>::max())))
      cell_failure(row, c, (t << "finite float32").view());
    return *n;
  }
  void average(std::size_t c) {
    if (!columns_[c].is_number() || options_.like) return;
    double sum = 0;
    std::int64_t count = 0;
    for (std::size_t r : kept_)
      if (!is_missing(at(r, c), true)) {
        sum += number_at(r, c);
        ++count;
      }
    if (count == 0 && missing_ == missing_rule::mean)
      cell_failure(first_, c, "it has no number; missing_rule::mean needs at least one");
    columns_[c].mean = count == 0 ? 0 : sum / static_cast<double>(count);
  }
  float value_at(std::size_t row, std::size_t c) const {
    if (is_missing(at(row, c), true))
      return static_cast<float>(missing_ == missing_rule::mean ? columns_[c].mean : missing_number_);
    return static_cast<float>(number_at(row, c));
  }
  std::int64_t integer_at(std::size_t row, std::size_t c) const {
    std::int64_t whole = 0;
    const double n = number_at(row, c);
    text t;
    if (!detail::to_element(n, whole) || std::abs(n) > 0x1p53) {
      t << "`" << printable(at(row, c).text, 40) << "` is not a whole number";
      cell_failure(row, c, t.view());
    }
    if (columns_[c].target && classes_ > 0 && (whole < 0 || whole >= classes_)) {
      t << "class " << whole << " is outside 0.." << classes_ - 1;
      cell_failure(row, c, t.view());
    }
    return whole;
  }
  std::int64_t known_word(std::size_t row, std::size_t c) const {
    const column& of = columns_[c];
    const std::string_view word = at(row, c).text;
    if (const auto found = of.number_of_word.find(word); found != of.number_of_word.end()) return found->second;
    text t;
    t << "`" << printable(word, 40) << "` is not one of its words";
    // Only for messages that are kept: a suggestion compares all words.
    if (left_out_.count < rows_left_out::max_reasons) {
      const std::vector<std::string_view> known(of.words.begin(), of.words.end());
      suggest_names(t, word, known);
    }
    cell_failure(row, c, t.view());
  }
  std::int64_t word_at(std::size_t row, std::size_t c) {
    column& of = columns_[c];
    if (of.words_given) return known_word(row, c);
    const std::string_view word = at(row, c).text;
    if (const auto found = of.number_of_word.find(word); found != of.number_of_word.end()) return found->second;
    const auto next = static_cast<std::int64_t>(of.words.size());
    of.words.emplace_back(word);
    of.number_of_word.emplace(std::string(word), next);
    return next;
  }
  csv_table filled() {
    std::vector<any_tensor> fields;
    std::vector<std::vector<std::string>> names;
    const auto rows = static_cast<std::int64_t>(kept_.size());
    for (int group = 0; group < 4; ++group) {
      std::vector<std::size_t> selected;
      names.emplace_back();
      for (std::size_t c = 0; c < columns_.size(); ++c)
        if (columns_[c].kind != column_kind::ignored && columns_[c].group() == group) {
          selected.push_back(c);
          names.back().push_back(columns_[c].name);
        }
      if (selected.empty()) {
        names.pop_back();
        continue;
      }
      shape s{dim(rows)};
      if (group != 3 || selected.size() > 1) s.push_back(dim(selected.size()));
      fields.push_back(group % 2 == 0 ? numbers(selected, s) : integers(selected, s));
    }
    if (fields.empty()) detail::raise(error_kind::value, file_ + ": all of its columns are ignored");
    csv_schema schema{{}, {}, classes_, missing_, missing_number_};
    for (auto& c : columns_) {
      schema.columns.push_back({c.name, c.kind, c.target, c.mean});
      if (c.kind == column_kind::category) schema.words.emplace(c.name, std::move(c.words));
    }
    csv_table::source_lines from{file_, {}};
    for (std::size_t r : kept_) from.lines.push_back(cells_.lines[r]);
    return {tensor_rows(std::move(fields)), std::move(names), std::move(schema), left_out_.count,
            std::move(left_out_.why),       std::move(from)};
  }
  any_tensor numbers(view<const std::size_t> selected, const shape& s) const {
    auto all = matrix<float>::uninitialized(s);
    float* to = all.writable().data();
    for (std::size_t r : kept_)
      for (std::size_t c : selected) *to++ = value_at(r, c);
    return all;
  }
  any_tensor integers(view<const std::size_t> selected, const shape& s) {
    any_tensor all(storage(static_cast<std::size_t>(s.size()) * sizeof(std::int64_t)), {dtype::int64, s});
    auto* to = reinterpret_cast<std::int64_t*>(all.mutable_data());
    for (std::size_t r : kept_)
      for (std::size_t c : selected)
        *to++ = columns_[c].kind == column_kind::integer ? integer_at(r, c) : word_at(r, c);
    return all;
  }

  csv_cells cells_;
  const std::string& file_;
  const csv_options& options_;
  const missing_rule missing_;
  const double missing_number_;
  const std::int64_t classes_;
  rows_left_out left_out_;
  std::size_t first_ = 0;
  std::vector<column> columns_;
  std::vector<std::size_t> kept_;
};

}  // namespace

csv_table datasets::csv_text(std::string_view source, const std::string& name, const csv_options& o) {
  if (o.separator == '"' || o.separator == '\n' || o.separator == '\r')
    detail::raise(error_kind::value, "csv: a quote or the end of a line cannot be the separator");
  if (o.classes < 0) detail::raise(error_kind::value, "csv: classes is negative; expected at least 0 (0: any number)");
  if (o.like && (!o.targets.empty() || !o.kinds.empty() || !o.words.empty() || o.classes != 0))
    detail::raise(error_kind::value,
                  "csv: `like` gives the targets, kinds, words and classes; expected no such option beside it");
  rows_left_out left_out;
  const bool skips = o.on_error == sample_failure::skip;
  csv_cells cells = csv_scanner(source, name, o.separator, skips ? &left_out : nullptr).all();
  return table_builder(std::move(cells), name, o, std::move(left_out)).build();
}

csv_table datasets::csv(const std::string& path, const csv_options& o) {
  const detail::mapped_file file(path);
  return csv_text({reinterpret_cast<const char*>(file.data), file.size}, path, o);
}

}  // namespace lamina
