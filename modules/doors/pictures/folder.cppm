// Image files as tensors, and folders of image files by class.
export module lamina.pictures:folder;
import lamina;
import lamina.std;

namespace lamina::pictures {

/// Channels of an image: red, green and blue, or one.
export enum class color { rgb, gray };
/// uint8 [channels x height x width].
export using picture_tensor = tensor<std::uint8_t, extents<dyn, dyn, dyn>>;

/// Reads an image file. Errors: file_error, which names the file and the problem, raised before memory is allocated for
/// an image that the file cannot contain; unsupported_error for a format, or a variant of it, that is not supported.
export picture_tensor read(const std::string& path, color channels = color::rgb);
/// The same for bytes in memory; error messages call them `name`.
export picture_tensor read_bytes(view<const std::uint8_t> file, std::string_view name, color channels = color::rgb);

/// An image and its class.
export struct labeled_picture {
  picture_tensor image;
  std::int64_t label = 0;
};

/// Image folders, one for each class, DIRECTORY/CLASS/FILE, as `list_by_class` finds them: files that end in .bmp,
/// .jpeg, .jpg, .pgm, .png, .pnm or .ppm. An image is read on access, so sizes may differ. Copies share the list of
/// files; several threads may read at once.
export class folder {
 public:
  /// Errors: those of `list_by_class`.
  explicit folder(const std::string& directory, color channels = color::rgb);

  std::int64_t size() const { return static_cast<std::int64_t>(all_->files.size()); }
  /// Errors: value_error for an index outside 0..size() - 1; those of `read`.
  labeled_picture operator[](std::int64_t i) const;
  const std::vector<std::string>& class_names() const { return all_->class_names; }
  /// Errors: value_error for an index outside 0..size() - 1.
  const std::string& path(std::int64_t i) const { return at(i).path; }
  /// Location of image i for error messages.
  const std::string& location(std::int64_t i) const { return path(i); }
  std::int64_t label(std::int64_t i) const { return at(i).label; }

 private:
  const files_by_class::file& at(std::int64_t i) const;
  std::string directory_;
  std::shared_ptr<const files_by_class> all_;
  color channels_;
};

}  // namespace lamina::pictures
