"""The version that goes into manifests and callbacks."""

VERSION = "1.0.0"
