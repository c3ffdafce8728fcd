import org.jspecify.annotations.NullMarked;

/** The root of all exceptions, for modules that share nothing else. */
@NullMarked
module dev.starling.errors {
    requires static transitive org.jspecify;
    requires jdk.management;

    exports dev.starling.errors;
}
