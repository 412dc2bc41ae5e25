// Data sets in memory: rows of tensors and arrays, and tables of CSV files.
export module lamina:data.table;
import :core;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Rows of tensors whose number and types are known at run time: sample i has row i of each. Copies share memory.
export class tensor_rows {
 public:
  /// Errors: value_error unless there are 1 to 16 tensors of numbers; shape_error for a tensor without an axis, or where the
  /// numbers of rows differ. `names` are those of the fields, and may be empty.
  explicit tensor_rows(std::vector<any_tensor> columns, std::vector<std::string> names = {});
  std::int64_t size() const { return size_; }
  /// Errors: value_error for an index outside 0..size() - 1.
  any_sample operator[](std::int64_t i) const;
  /// The tensors themselves, with all rows.
  view<const any_tensor> columns() const { return columns_; }
  std::vector<tensor_type> sample_types() const { return types_; }
  const std::vector<std::string>& field_names() const { return names_; }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const;

 private:
  void check(std::int64_t i) const;
  std::vector<any_tensor> columns_;
  std::vector<tensor_type> types_;  // of one row
  std::vector<std::string> names_;
  std::int64_t size_ = 0;
};

export namespace dataset {
/// Rows of tensors, or of memory of yours: `dataset::of_tensors(x, borrow(labels, {n}))`.
/// Errors: as of `tensor_rows`.
template <class... T> requires(sizeof...(T) > 0 && (std::constructible_from<any_tensor, const T&> && ...))
tensor_rows of_tensors(const T&... columns) {
  return tensor_rows(std::vector<any_tensor>{any_tensor(columns)...});
}
}  // namespace dataset

// ---- CSV ------------------------------------------------------------------------------------------------------------

/// What is done with a row in which a number is missing: an empty field, `NA`, `nan`, `null` or `?`.
export enum class missing_rule : std::uint8_t { error, skip, mean, number };
/// What a column holds. `inferred`: numbers where more than half of its fields are, of those that are not missing, and then one that is
/// none is an error; else words. `integer`: whole numbers that stay what they are, as classes; `category`: words, which are counted.
export enum class column_kind : std::uint8_t { inferred, number, integer, category, ignored };

/// What a column of a table holds.
export struct csv_column {
  std::string name;
  column_kind kind = column_kind::number;
  bool target = false;
  double mean = 0;  // of a column of numbers that has any
};
/// What the columns of a table hold, so that other files are read as it was: `csv_options::like`.
export struct csv_schema {
  std::vector<csv_column> columns;
  std::map<std::string, std::vector<std::string>> words{};  // of the categories, by column
  std::int64_t classes = 0;
  missing_rule missing = missing_rule::error;
  double missing_number = 0;
};

/// How a CSV file is read.
export struct csv_options {
  /// Columns that are predicted, by name, or by position from 0 where there is no header.
  std::vector<std::string> targets = {};
  /// Kinds of columns that are not to be inferred, by name or position.
  std::map<std::string, column_kind> kinds = {};
  /// How many classes a target of kind `integer` has, 0 to classes - 1; 0: any.
  std::int64_t classes = 0;
  bool header = true;
  char separator = ',';
  /// Without one `error`, or that of `like`.
  std::optional<missing_rule> missing = {};
  /// What stands for missing numbers under `missing_rule::number`.
  double missing_number = 0;
  /// Words of categories, by column, in the order of their numbers; of other columns, the words in the order in which they
  /// come. A word that is not among them is an error. Tables of one task share them: `.words = train.words()`.
  std::map<std::string, std::vector<std::string>> words = {};
  /// Reads a file as another one was: `datasets::csv("test.csv", {.like = train})` has its columns, by name and in its order, its kinds and
  /// words, its rule for what is missing, and its means. Columns that it has not are left out, and targets may be missing, all of them.
  std::optional<csv_schema> like = {};
  /// Whether a row that cannot be read ends reading, or is left out and counted: of another number of fields, with what is no number where
  /// one is expected, a class or a word that there is not, or a value that is missing.
  sample_failure on_error = sample_failure::raise;
};

/// A table in memory. The fields of a sample are, of those there are: the numbers [columns] as float32, the categories
/// and integers [columns] as int64, the targets of the first kind [columns], the targets of the second, a single one as one
/// int64 without an axis.
export class csv_table {
 public:
  /// The file that rows come from, and the lines on which they begin.
  struct source_lines {
    std::string file;
    std::vector<std::int64_t> lines;
  };
  csv_table(tensor_rows rows, std::vector<std::vector<std::string>> names, csv_schema schema, std::int64_t skipped,
            std::vector<std::string> left_out, source_lines from)
      : rows_(std::move(rows)),
        names_(std::move(names)),
        schema_(std::make_shared<const csv_schema>(std::move(schema))),
        skipped_(skipped),
        left_out_(std::move(left_out)),
        from_(std::make_shared<const source_lines>(std::move(from))) {}
  std::int64_t size() const { return rows_.size(); }
  any_sample operator[](std::int64_t i) const { return rows_[i]; }
  std::vector<tensor_type> sample_types() const { return rows_.sample_types(); }
  /// A field of one column has its name.
  std::vector<std::string> field_names() const {
    std::vector<std::string> all;
    for (const auto& columns : names_) all.push_back(columns.size() == 1 ? columns[0] : std::string());
    return all;
  }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const {
    rows_.read(indices, destinations);
  }
  const tensor_rows& rows() const { return rows_; }
  /// The names of the columns of a field.   Errors: value_error for a field that there is not.
  const std::vector<std::string>& names(std::size_t field) const;
  /// The words of all categories, by column: number i stands for word i.
  const std::map<std::string, std::vector<std::string>>& words() const { return schema_->words; }
  /// Kinds, words and means of its columns.
  const csv_schema& schema() const { return *schema_; }
  operator const csv_schema&() const { return *schema_; }
  /// What errors about row i name: its file and line, "prices.csv:17", and with a field the column of its element.
  std::string location(std::int64_t i, std::size_t field = detail::no_field, std::int64_t element = -1) const;
  /// How many rows were left out, for missing numbers or under `on_error`.
  std::int64_t skipped() const { return skipped_; }
  /// What was wrong with each of them, by file, line and column; of the first 100.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  tensor_rows rows_;
  std::vector<std::vector<std::string>> names_;
  std::shared_ptr<const csv_schema> schema_;
  std::int64_t skipped_;
  std::vector<std::string> left_out_;
  std::shared_ptr<const source_lines> from_;
};

export namespace datasets {

/// Reads a CSV file: fields in double quotes may have separators, ends of lines, and quotes as two; lines end with \n or
/// \r\n, and the last may have no end. A byte order mark is left out. Empty lines are no rows.
/// Errors: file_error naming file, line and column: rows with another number of fields, numbers and words that are not
/// expected, numbers that are missing, quotes that do not end; value_error for columns that there are not.
/// Source: Shafranovich, "Common Format and MIME Type for Comma-Separated Values (CSV) Files" (2005), RFC 4180.
csv_table csv(const std::string& path, const csv_options& o = {});
/// The same of text in memory; `name` stands for the file in messages.
csv_table csv_text(std::string_view text, const std::string& name, const csv_options& o = {});

/// The rows of an npy file.   Errors: as `read_npy` and `tensor_rows`.
tensor_rows npy(const std::string& path);
/// Rows of some arrays of an npz file, or of all.   Errors: as `read_npz` and `tensor_rows`; value_error for a name that
/// there is not.
tensor_rows npz(const std::string& path, const std::vector<std::string>& names = {});
/// Rows of some tensors of a safetensors file, or of all.   Errors: as `read_safetensors`, and as `npz`.
tensor_rows safetensors(const std::string& path, const std::vector<std::string>& names = {});

}  // namespace datasets

}  // namespace lamina
