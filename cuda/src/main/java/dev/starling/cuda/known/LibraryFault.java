package dev.starling.cuda.known;

import java.util.function.Predicate;

/**
 * A known fault of some versions of a library.
 *
 * @param library which one
 * @param first the first version that has it, as the library numbers its versions
 * @param last the last version that has it, or {@link #STILL}
 * @param operation the calls that it concerns, by type
 * @param test the calls that it concerns, among those of the type
 * @param remedy what we do about it
 * @param symptom what the library does
 * @param source where that is reported, or worked around
 */
public record LibraryFault(Library library, long first, long last, Class<? extends Asked> operation,
        Predicate<? super Asked> test, Remedy remedy, String symptom, String source) {
    /** The last version of a fault that no version is known to have mended. */
    public static final long STILL = Long.MAX_VALUE;

    /** Libraries that have faults. */
    public enum Library {
        /** Its versions are 10000·major + 100·minor + patch. */
        CUDNN,
        /** Its versions are 10000·major + 100·minor + patch. */
        CUBLASLT
    }

    /** What we do about a fault. */
    public enum Remedy {
        /** The library is not asked; kernels of our own compute the operation. */
        DECLINE,
        /** The graph gets a padding mask whose lengths are those of the whole sequences. */
        PAD
    }

    static <T extends Asked> LibraryFault of(Library library, long first, long last, Class<T> operation,
            Predicate<T> test, Remedy remedy, String symptom, String source) {
        return new LibraryFault(library, first, last, operation, asked -> test.test(operation.cast(asked)), remedy,
                symptom, source);
    }

    /** Tells whether a version of the library has the fault in what it is asked for. */
    public boolean concerns(Library asker, long version, Asked asked) {
        return asker == library && version >= first && version <= last && operation.isInstance(asked)
                && test.test(asked);
    }
}
