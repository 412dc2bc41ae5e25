// Interface of a fuzz target: reads bytes as one kind of file. Ends the process unless an error has a kind that the
// reader documents.
#pragma once

void examine(const unsigned char* data, unsigned long size);
