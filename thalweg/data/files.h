#pragma once

// Datasets from files. Files are not trusted: what is damaged gives an Error that names file and place. Files packed
// with gzip are unpacked on the way where that is said.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thalweg/data/dataset.h"

namespace thalweg::data {

// ---- IDX, the format of MNIST (gzip too)
TW_API Tensor load_idx(const std::string& path);
// Rows are read when they are needed; arrays that are packed, and those up to 64 MiB, are held in memory.
TW_API Dataset idx(const std::string& path);                               // rows of the array
TW_API Dataset idx(const std::string& images, const std::string& labels);  // a row of each

// ---- NumPy
// Rows along the first axis of an .npy file, or of the named arrays (none named: all, by name) of an .npz archive. Rows
// are read when they are needed; of an archive, arrays that are packed, and those up to 64 MiB, are held in memory.
// Checksums of an archive are verified before the first row: larger arrays are read once for it, a piece at a time.
TW_API Dataset npy(const std::string& path, const std::vector<std::string>& names = {});
TW_API Tensor load_npy(const std::string& path);
TW_API std::map<std::string, Tensor> load_npz(const std::string& path);

// ---- comma-separated values (RFC 4180; gzip too), read row by row
struct CsvColumn {
  std::string name;
  DType dtype = f32;
};
struct CsvOptions {
  std::vector<CsvColumn> columns = {};  // one scalar each; empty: one f32 vector of all columns
  std::string label = {};               // a column that becomes a last part of its own
  DType label_dtype = f32;
  bool header = true;  // the first row names the columns; otherwise they are named "0", "1", …
  char delimiter = ',';
  std::optional<double> missing = {};  // the value of empty fields; unset: an error
  std::int64_t max_record = 1 << 20;   // bytes
};
TW_API Dataset csv(const std::string& path, const CsvOptions& options = {});
TW_API std::vector<std::string> csv_columns(const std::string& path, const CsvOptions& options = {});  // their names

// ---- TFRecord (gzip too), read record by record, checksums checked
struct Feature {
  std::string name;
  DType dtype = f32;                         // bytes give u8; integers i64, i32, u8 or boolean; floats f32 or f64
  std::optional<Ints> shape = Ints();        // {}: a scalar; one size may be -1; unset: a vector of any length
  std::optional<double> default_value = {};  // where the feature is missing; unset: an error
};
struct TfrecordOptions {
  std::vector<Feature> features = {};  // parts of a tf.train.Example; empty: the bytes of the record, u8
  std::int64_t max_record = 1 << 30;   // bytes
};
TW_API Dataset tfrecord(const std::vector<std::string>& paths, const TfrecordOptions& options = {});
TW_API Dataset tfrecord(const std::string& path, const TfrecordOptions& options = {});
TW_API Element parse_example(std::string_view record, const std::vector<Feature>& features);

// ---- images: a folder with one folder for each class, of .png, .jpg and .jpeg files
struct ImageFolderOptions {
  std::int64_t height = 0, width = 0;  // scaled to this size (bilinear); 0: as they are
  int channels = 3;                    // 1, 3 or 4
  std::int64_t max_pixels = 1 << 27;
};
// The image, u8 [height, width, channels], and the number of its class, i64. Classes and files are in the order of
// their names; hidden ones, whose names begin with a dot, are left out.
TW_API Dataset image_folder(const std::string& path, const ImageFolderOptions& options = {});
TW_API std::vector<std::string> class_names(const std::string& image_folder);
TW_API std::vector<std::string> image_files(const std::string& image_folder);  // of the elements, in their order
TW_API Tensor load_image(const std::string& path, const ImageFolderOptions& options = {});

}  // namespace thalweg::data
