// A module that may import the modules of the lowest layer.
export module lamina:plan;
import :core;
