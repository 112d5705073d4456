/* profile.c: the public profile: rows, and the stamps of a GPU that become rows. */
#include "dev/cuda.h"
#include "dev/dev.h"

cadre_err cadre_profile_new(cadre_device *device, cadre_profile **out, cadre_fail *why) {
    if (!device || !out) return cadre_fail_set(why, CADRE_RANGE, "cadre_profile_new: an argument is NULL");
    cadre_profile *p = mem_new(sizeof *p);
    if (!p) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a profile");
    *p = (cadre_profile){0};
    cadre_err err = device->gpu ? dev_cuda_stamps_new(device->gpu, &p->stamps, why) : CADRE_OK;
    if (err)
        mem_free(p);
    else
        *out = p;
    return err;
}

void cadre_profile_free(cadre_profile *p) {
    if (!p) return;
    dev_cuda_stamps_free(p->stamps);
    mem_free(p);
}

cadre_err cadre_profile_collect(cadre_profile *p, cadre_fail *why) {
    if (!p) return cadre_fail_set(why, CADRE_RANGE, "cadre_profile_collect: the profile is NULL");
    return p->stamps ? dev_cuda_stamps_read(p->stamps, &p->rows, why) : CADRE_OK;
}

int cadre_profile_rows(const cadre_profile *p, cadre_profile_row *rows, int cap) {
    return profile_tell(&p->rows, rows, cap);
}

void cadre_profile_clear(cadre_profile *p) {
    profile_clear(&p->rows);
    if (p->stamps) dev_cuda_stamps_forget(p->stamps);
}
