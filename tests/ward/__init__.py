"""The ward: sick jobs run under `ddpdoctor watch`, which must name exactly their sickness, and healthy ones left alone."""
