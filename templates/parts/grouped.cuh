// GROUPED: whether the products of a batch have different numbers of rows; GROUPED_DEPTH: different k (parts/groups.cuh).
#pragma once

#ifndef GROUPED
#define GROUPED 0
#endif
#ifndef GROUPED_DEPTH
#define GROUPED_DEPTH 0
#endif
