// Files in folders, one folder for each class.
export module lamina:data.folder;
import :core;
import lamina.std;

namespace lamina {

/// Files and their classes.
export struct files_by_class {
  struct file {
    std::string path;
    std::int64_t label = 0;
  };
  std::vector<std::string> class_names;
  std::vector<file> files;
};

/// The files `directory/<class>/<file>` that end in one of `endings`, as ".wav", in lower case, upper case or both. Classes are counted in the
/// order of their names, and files in that of classes and of their names. What begins with a point is left out, and so are files
/// beside the folders of classes and folders in them.
/// Errors: file_error for a directory that cannot be read, that has no folders, or one of whose folders has no such file.
export files_by_class list_by_class(const std::string& directory, const std::vector<std::string>& endings);

}  // namespace lamina
