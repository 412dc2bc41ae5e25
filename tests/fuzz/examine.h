// A fuzz target: reads bytes as one kind of file. Anything but an error of the kinds that its reader promises ends it.
#pragma once

void examine(const unsigned char* data, unsigned long size);
