// A room that may import what the ground floor declares.
export module lamina:plan;
import :core;
