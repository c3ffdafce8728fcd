package dev.starling.cuda;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** The families of operations that may use cuDNN. The others run on Starling's own kernels. */
enum CudnnFamily {
    CONVOLUTION, ATTENTION, RECURRENCE;

    private static final String PROPERTY = "starling.cuda.cudnn";

    /**
     * Returns the families that the property {@code starling.cuda.cudnn} lists: names separated by commas, or "all".
     */
    static Set<CudnnFamily> enabled() {
        return parse(System.getProperty(PROPERTY, "all"));
    }

    /** Returns the families that a text lists, or throws {@link IllegalArgumentException}. */
    static Set<CudnnFamily> parse(String text) {
        Set<CudnnFamily> families = EnumSet.noneOf(CudnnFamily.class);
        for (String name : text.split(",")) {
            String word = name.strip().toUpperCase(Locale.ROOT);
            if (word.equals("ALL")) {
                return EnumSet.allOf(CudnnFamily.class);
            }
            if (!word.isEmpty()) {
                families.add(Arrays.stream(values()).filter(f -> f.name().equals(word)).findAny().orElseThrow(
                        () -> new IllegalArgumentException(PROPERTY + " lists '" + name + "': use \"all\", or some of "
                                + Arrays.toString(values()).toLowerCase(Locale.ROOT))));
            }
        }
        return families;
    }
}
