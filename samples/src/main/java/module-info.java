/** The samples behind the {@code starling} command. */
module dev.starling.samples {
    requires dev.starling.distributed;
    requires info.picocli;

    opens dev.starling.samples to info.picocli;
    opens dev.starling.samples.train to info.picocli;
}
