// GROUPED: whether the products of a batch have different numbers of rows (parts/groups.cuh).
#pragma once

#ifndef GROUPED
#define GROUPED 0
#endif
