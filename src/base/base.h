/* base.h: what every room may use: errors, memory, files, threads, clocks, random numbers, JSON, UTF-8, mathematics,
 * statistics. Neighbours include this header alone; the others in this folder are its chapters. */
#ifndef CADRE_BASE_H
#define CADRE_BASE_H
#include "cadre.h"

#include "cgroup.h"
#include "clock.h"
#include "cpus.h"
#include "err.h"
#include "fault.h"
#include "file.h"
#include "json.h"
#include "log.h"
#include "math.h"
#include "mem.h"
#include "pool.h"
#include "process.h"
#include "profile.h"
#include "rand.h"
#include "sha.h"
#include "stat.h"
#include "switch.h"
#include "utf8.h"
#endif
