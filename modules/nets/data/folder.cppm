// Files in one folder per class.
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

/// Lists the files `directory/<class>/<file>` that end in one of `endings`, such as ".wav", in lower, upper or mixed
/// case. Classes are numbered in the order of their names; files are ordered by class, then name. Names that begin with
/// a dot, files beside the class folders and folders inside them are skipped.
/// Errors: file_error for a directory that cannot be read, that has no folders, or that has a folder without such a
/// file.
export files_by_class list_by_class(const std::string& directory, const std::vector<std::string>& endings);

}  // namespace lamina
