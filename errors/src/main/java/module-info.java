/** The root of all exceptions, for modules that share nothing else. */
module dev.starling.errors {
    exports dev.starling.errors;
}
