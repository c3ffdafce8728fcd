package dev.starling.cuda.known;

import java.util.function.Predicate;

/**
 * A known fault of some versions of a library.
 *
 * @param library the library
 * @param first the first version with the fault, in the library's own numbering
 * @param last the last version with the fault, or {@link #UNFIXED}
 * @param operation type of the affected queries
 * @param test selects the affected queries of that type
 * @param remedy what Starling does about it
 * @param symptom what the library does wrong
 * @param source where the fault is reported or worked around
 */
public record LibraryFault(Library library, long first, long last, Class<? extends LibraryQuery> operation,
        Predicate<? super LibraryQuery> test, Remedy remedy, String symptom, String source) {
    /** The last version of a fault for which no fix is known. */
    public static final long UNFIXED = Long.MAX_VALUE;

    /** Libraries with known faults. */
    public enum Library {
        /** Its versions are 10000·major + 100·minor + patch. */
        CUDNN,
        /** Its versions are 10000·major + 100·minor + patch. */
        CUBLASLT
    }

    /** What Starling does about a fault. */
    public enum Remedy {
        /** It does not use the library; its own kernels compute the operation. */
        DECLINE,
        /** It adds a padding mask to the graph, whose lengths are those of the whole sequences. */
        PAD
    }

    static <T extends LibraryQuery> LibraryFault of(Library library, long first, long last, Class<T> operation,
            Predicate<T> test, Remedy remedy, String symptom, String source) {
        return new LibraryFault(library, first, last, operation, query -> test.test(operation.cast(query)), remedy,
                symptom, source);
    }

    /** Returns whether a version of a library has this fault for a query. */
    public boolean affects(Library usedLibrary, long version, LibraryQuery query) {
        return usedLibrary == library && version >= first && version <= last && operation.isInstance(query)
                && test.test(query);
    }
}
