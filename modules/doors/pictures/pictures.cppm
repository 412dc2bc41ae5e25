// Image files as tensors, and folders of image files as data sets.
//
//     import lamina;
//     import lamina.pictures;
//     const auto x = pictures::read("cat.jpg");          // uint8 [3 x height x width]
//     const pictures::folder data("animals/train");      // animals/train/cat/1.png, animals/train/dog/7.jpg, ...
//     const auto& [image, label] = data[0];
export module lamina.pictures;
export import :folder;
export import :format;
