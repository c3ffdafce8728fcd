package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.cpu.rows.Taps;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Pooling.Window;

/** The windows over channels-last images, processed in runs of pixels with the same pattern of taps. */
final class PoolingWindows {
    private static final long GRAIN = 1 << 15;
    private static final IdlePool<Taps> TAPS = new IdlePool<>();
    /** The most elements of a window whose taps are kept for later runs. */
    private static final int MAX_KEPT = 1 << 16;

    final int channels;
    private final long images;
    private final PoolingSide depth;
    private final PoolingSide height;
    private final PoolingSide width;
    private final boolean countPadding;
    private final int wholeFrom;
    private final int wholeTo;
    private final int surroundedFrom;
    private final int surroundedTo;
    private final int elements;
    private final long pixel;

    PoolingWindows(Window window, Shape in, Shape out, boolean countPadding) {
        long[] x = in.dims();
        long[] y = out.dims();
        channels = Math.toIntExact(x[1]);
        images = x[0];
        depth = PoolingSide.of(window, 0, x, y);
        height = PoolingSide.of(window, 1, x, y);
        width = PoolingSide.of(window, 2, x, y);
        wholeFrom = width.wholeFrom();
        wholeTo = width.wholeTo();
        surroundedFrom = width.surroundedFrom();
        surroundedTo = width.surroundedTo();
        elements = Math.multiplyExact(Math.multiplyExact(depth.maxTaps(), height.maxTaps()), width.maxTaps());
        pixel = 4L * channels;
        this.countPadding = countPadding;
    }

    /**
     * Computes {@code pixels} pixels of a row with the same pattern of taps. Bytes count from the first pixel of all.
     */
    interface Run {
        /**
         * Computes the pixels.
         *
         * @param taps of the first pixel; those of each next pixel are {@code step} bytes further
         * @param place index of the first pixel, as that of its taps: in its plane, or among the windows of a row
         * @param placeStep from the index of one pixel (or of its taps) to the next
         * @param to bytes to the first pixel
         * @param toStep bytes from one pixel to the next
         */
        void make(Taps taps, long step, int place, int placeStep, long to, long toStep, int pixels);
    }

    /**
     * Returns what computes the pixels of the output from the elements of their windows, in the input at {@code x}; it
     * can be run any number of times.
     */
    Runnable overWindows(long x, Run run) {
        return new Rows(depth.out() * height.out(), width.out()) {
            @Override
            void process(long row, Taps taps) {
                windows(x, row, taps, run);
            }
        };
    }

    /** Work on rows of pixels. */
    private abstract class Rows extends RangeWork {
        Rows(long rowsPerImage, int pixels) {
            super(images * rowsPerImage, Math.max(1, GRAIN / ((long) pixels * elements * channels)));
        }

        abstract void process(long row, Taps taps);

        @Override
        public void run(long from, long to) {
            Taps idle = TAPS.take();
            Taps taps = idle != null && idle.capacity() >= elements ? idle : new Taps(elements);
            int rows = Math.toIntExact(to - from);
            for (int i = 0; i < rows; i++) {
                process(from + i, taps);
            }
            if (taps.capacity() <= MAX_KEPT) {
                TAPS.give(taps);
            }
        }
    }

    private void windows(long x, long row, Taps taps, Run run) {
        int b = (int) (row % height.out());
        int a = (int) (row / height.out() % depth.out());
        long image = x + row / height.out() / depth.out() * depth.in() * height.in() * width.in() * pixel;
        int o = 0;
        while (o < width.out()) {
            int first = o;
            o = first >= wholeFrom && first < wholeTo ? wholeTo : first + 1;
            taps.clear();
            elements(image, a, b, first, taps);
            run.make(taps, pixel * width.stride(), first, width.stride(), (row * width.out() + first) * pixel, pixel,
                    o - first);
        }
    }

    private void elements(long image, int a, int b, int c, Taps taps) {
        float weight = weight(a, b, c);
        for (int i = depth.first(a); i < depth.end(a, depth.in()); i++) {
            for (int j = height.first(b); j < height.end(b, height.in()); j++) {
                int line = (depth.at(a, i) * height.in() + height.at(b, j)) * width.in();
                for (int k = width.first(c); k < width.end(c, width.in()); k++) {
                    int place = line + width.at(c, k);
                    taps.add(image + place * pixel, place, weight);
                }
            }
        }
    }

    /**
     * Returns what computes the pixels of the input from the windows that contain them, in the output at {@code y}; it
     * can be run any number of times.
     */
    Runnable overElements(long y, Run run) {
        return new Rows(depth.in() * height.in(), width.in()) {
            @Override
            void process(long row, Taps taps) {
                for (int phase = 0; phase < Math.min(width.stride(), width.in()); phase++) {
                    elementsOf(y, row, phase, taps, run);
                }
            }
        };
    }

    /** Processes every {@code stride}-th element of a row; these have windows of the same pattern. */
    private void elementsOf(long y, long row, int phase, Taps taps, Run run) {
        int b = (int) (row % height.in());
        int a = (int) (row / height.in() % depth.in());
        long image = y + row / height.in() / depth.in() * depth.out() * height.out() * width.out() * pixel;
        int step = Math.min(width.stride(), width.in());
        int i = phase;
        while (i < width.in()) {
            int first = i;
            i += step * (first >= surroundedFrom && first < surroundedTo
                    ? Math.ceilDiv(surroundedTo - first, step) : 1);
            taps.clear();
            windowsOf(image, a, b, first, taps);
            run.make(taps, pixel, (a * height.in() + b) * width.in() + first, step,
                    (row * width.in() + first) * pixel, pixel * step, (i - first) / step);
        }
    }

    private void windowsOf(long image, int a, int b, int c, Taps taps) {
        for (int i = 0; i < depth.kernel(); i++) {
            int u = depth.window(a, i);
            for (int j = 0; j < height.kernel() && u >= 0; j++) {
                int v = height.window(b, j);
                for (int k = 0; k < width.kernel() && v >= 0; k++) {
                    int w = width.window(c, k);
                    if (w >= 0) {
                        int place = (u * height.out() + v) * width.out() + w;
                        taps.add(image + place * pixel, place, weight(u, v, w));
                    }
                }
            }
        }
    }

    private float weight(int a, int b, int c) {
        return 1f / ((float) depth.divisor(a, countPadding) * height.divisor(b, countPadding)
                * width.divisor(c, countPadding));
    }
}
