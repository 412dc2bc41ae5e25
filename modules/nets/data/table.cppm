// Data sets in memory: rows of tensors and arrays, and tables of CSV files.
export module lamina:data.table;
import :core;
import :data.set;
import :dtype;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Rows of tensors whose number and types are known at run time: sample i is row i of each. Copies share memory.
export class tensor_rows {
 public:
  /// Errors: value_error unless there are 1 to 16 tensors of numbers; shape_error for a tensor without an axis, or if
  /// the numbers of rows differ. `names` are the field names, and may be empty.
  explicit tensor_rows(std::vector<any_tensor> columns, std::vector<std::string> names = {});
  std::int64_t size() const { return size_; }
  /// Errors: value_error for an index outside 0..size() - 1.
  any_sample operator[](std::int64_t i) const;
  /// The complete tensors.
  view<const any_tensor> columns() const { return columns_; }
  std::vector<tensor_type> sample_types() const { return types_; }
  const std::vector<std::string>& field_names() const { return names_; }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const;

 private:
  void check(std::int64_t i) const;
  std::vector<any_tensor> columns_;
  std::vector<tensor_type> types_;  // types of one row
  std::vector<std::string> names_;
  std::int64_t size_ = 0;
};

export namespace dataset {
/// Rows of tensors, or of your own memory: `dataset::of_tensors(x, borrow(labels, {n}))`.
/// Errors: as `tensor_rows`.
template <class... T> requires(sizeof...(T) > 0 && (std::constructible_from<any_tensor, const T&> && ...))
tensor_rows of_tensors(const T&... columns) {
  return tensor_rows(std::vector<any_tensor>{any_tensor(columns)...});
}
}  // namespace dataset

// ---- CSV ------------------------------------------------------------------------------------------------------------

/// Handling of a row with a missing number: an empty field, `NA`, `nan`, `null` or `?`.
export enum class missing_rule : std::uint8_t { error, skip, mean, number };
/// Content of a column. `inferred`: numbers if more than half of its non-missing fields are numbers (then any other
/// field is an error); else words. `integer`: whole numbers that are kept, such as classes; `category`: words, which
/// are numbered.
export enum class column_kind : std::uint8_t { inferred, number, integer, category, ignored };

/// Description of a table column.
export struct csv_column {
  std::string name;
  column_kind kind = column_kind::number;
  bool target = false;
  double mean = 0;  // for a column with numbers
};
/// Column descriptions of a table, for reading other files in the same way: `csv_options::like`.
export struct csv_schema {
  std::vector<csv_column> columns;
  std::map<std::string, std::vector<std::string>> words{};  // words of categories, by column
  std::int64_t classes = 0;
  missing_rule missing = missing_rule::error;
  double missing_number = 0;
};

/// Options of `datasets::csv`.
export struct csv_options {
  /// Target columns, by name, or by position from 0 without a header.
  std::vector<std::string> targets = {};
  /// Kinds of columns that are not inferred, by name or position.
  std::map<std::string, column_kind> kinds = {};
  /// Number of classes of a target of kind `integer`, 0 to classes - 1; 0: any.
  std::int64_t classes = 0;
  bool header = true;
  char separator = ',';
  /// Handling of rows with missing numbers. Default: `error`, or the rule of `like`.
  std::optional<missing_rule> missing = {};
  /// Replacement of missing numbers under `missing_rule::number`.
  double missing_number = 0;
  /// Words of categories, by column, in the order of their numbers; a word that is not listed is an error. In other
  /// columns, words are numbered in order of appearance. Tables of one task share them: `.words = train.words()`.
  std::map<std::string, std::vector<std::string>> words = {};
  /// Reads a file like another one: `datasets::csv("test.csv", {.like = train})` uses the columns of `train`, by name
  /// and in its order, its kinds, words, missing rule and means. Other columns are dropped. A file without any of the
  /// targets is read without targets; some but not all of them are an error.
  std::optional<csv_schema> like = {};
  /// Whether an unreadable row is an error, or is skipped and counted: another number of fields, an invalid number, an
  /// unknown class or word, or a missing value.
  sample_failure on_error = sample_failure::raise;
};

/// A table in memory. A sample is a row. Its fields, of which those without columns are left out, are: numbers
/// [columns] as float32; categories and integers [columns] as int64; targets that are numbers [columns] as float32;
/// targets that are categories or integers [columns] as int64, without an axis for a single column.
export class csv_table {
 public:
  /// The source file, and the line on which each row begins.
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
  /// A field of one column has the column's name.
  std::vector<std::string> field_names() const {
    std::vector<std::string> all;
    for (const auto& columns : names_) all.push_back(columns.size() == 1 ? columns[0] : std::string());
    return all;
  }
  void read(view<const std::int64_t> indices, view<void* const> destinations) const {
    rows_.read(indices, destinations);
  }
  const tensor_rows& rows() const { return rows_; }
  /// Column names of a field.   Errors: value_error for a field that does not exist.
  const std::vector<std::string>& names(std::size_t field) const;
  /// Words of all categories, by column: number i is word i.
  const std::map<std::string, std::vector<std::string>>& words() const { return schema_->words; }
  /// Kinds, words and means of its columns.
  const csv_schema& schema() const { return *schema_; }
  operator const csv_schema&() const { return *schema_; }
  /// Origin of row i for error messages: file and line, "prices.csv:17", and with a field the column of its element.
  std::string location(std::int64_t i, std::size_t field = detail::no_field, std::int64_t element = -1) const;
  /// Number of skipped rows, because of missing numbers or under `on_error`.
  std::int64_t skipped() const { return skipped_; }
  /// Reason for each of the first 100 skipped rows, with file, line and column.
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

/// Reads a CSV file. Fields in double quotes may have separators, line ends, and doubled quotes; lines end with \n or
/// \r\n, optional for the last one. A byte order mark and empty lines are ignored.
/// Errors: file_error naming file, line and column: rows with another number of fields, unexpected numbers or words,
/// missing numbers, unterminated quotes; value_error for columns that do not exist.
/// Source: Shafranovich, "Common Format and MIME Type for Comma-Separated Values (CSV) Files" (2005), RFC 4180.
csv_table csv(const std::string& path, const csv_options& o = {});
/// The same for text in memory; `name` is used as the file name in messages.
csv_table csv_text(std::string_view text, const std::string& name, const csv_options& o = {});

/// The rows of an npy file.   Errors: as `read_npy` and `tensor_rows`.
tensor_rows npy(const std::string& path);
/// Rows of selected arrays of an npz file, or of all.   Errors: as `read_npz` and `tensor_rows`; value_error for a name
/// that does not exist.
tensor_rows npz(const std::string& path, const std::vector<std::string>& names = {});
/// Rows of selected tensors of a safetensors file, or of all.   Errors: as `read_safetensors`, and as `npz`.
tensor_rows safetensors(const std::string& path, const std::vector<std::string>& names = {});

}  // namespace datasets

}  // namespace lamina
