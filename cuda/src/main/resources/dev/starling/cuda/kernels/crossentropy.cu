// Cross-entropy of rows. Macros: TI, the type of targets; those of rows.cuh.

#include "rows.cuh"

// The class of a row, -1 if the row is ignored or its class is none; that is reported.
DEVICE i32 target_of(const TI* target, u32 row, u32 rows, u32 size, i64 ignored, Fault fault) {
    i64 wanted = row < rows ? (i64) *target : ignored;
    if (wanted != ignored && (wanted < 0 || wanted >= size)) {
        if (LANE == 0) {
            report(fault, wanted, row);
        }
        return -1;
    }
    return wanted == ignored ? -1 : (i32) wanted;
}

extern "C" __global__ void __launch_bounds__(BLOCK) loss(TX* __restrict__ losses, TX* __restrict__ logs,
        const TX* logits, const TI* target, i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_, i64 ignored,
        Fault fault) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    i64 first = (i64) (line < rows ? line : 0) * size;
    i32 wanted = target_of(target + (line < rows ? line * step_target : 0), line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_;
    Row row(logits + first, 1, n);
    Exponentials all = exponentials<false>(row);
    C log_sum = log(all.sum);
    C sum = 0;
    row.each([&](u32 v, u32 i, auto& x) {
        for (int k = 0; k < x.width; k++) {
            x.at[k] = x.at[k] - all.greatest - log_sum;
        }
        if (even != 0 || (u32) wanted - i < x.width) {
            for (int k = 0; k < x.width; k++) {
                C share = i + k == (u32) wanted ? even + sharp : even;
                sum -= share == 0 ? C(0) : share * x.at[k];
            }
        }
        write_values(logs + first, 1, i, x);
    });
    sum = row_sum(sum);
    if (line < rows && LANE == 0) {
        losses[line] = narrow<TX>(wanted < 0 ? C(0) : sum);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK) gradient(TX* __restrict__ dx, const TX* g, i64 step_g,
        const TX* logs, const TI* target, i64 step_target, u32 rows, u32 size, f64 even_, f64 sharp_, i64 ignored,
        Fault fault) {
    u32 line = ROW;
    if (line >= rows) {
        return;
    }
    i32 wanted = target_of(target + line * step_target, line, rows, size, ignored, fault);
    C even = (C) even_, sharp = (C) sharp_, scale = widen(g[line * step_g]);
    Row row(logs + (i64) line * size, 1, size);
    TX* to = dx + (i64) line * size;
    if (wanted < 0) {
        row.each([&](u32 v, u32 i, auto& x) {
            for (int k = 0; k < x.width; k++) {
                x.at[k] = 0;
            }
            write_values(to, 1, i, x);
        });
        return;
    }
    row.each([&](u32 v, u32 i, auto& x) {
        for (int k = 0; k < x.width; k++) {
            C share = i + k == (u32) wanted ? even + sharp : even;
            x.at[k] = (power_of_e(x.at[k]) - share) * scale;
        }
        write_values(to, 1, i, x);
    });
}
